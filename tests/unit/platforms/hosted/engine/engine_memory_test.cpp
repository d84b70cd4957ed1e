// Each allocation of the engine's thread fails once: one request ends, and nothing else happens.
#include <gtest/gtest.h>

#include "tests/support/engine_trial.h"
#include "tests/support/failing_memory.h"

namespace cria::hosted {
namespace {

using test::asking;
using test::demo_path;
using test::EngineTrial;
using test::HeardChoice;
using test::seeded;
using test::told;

// Its ends take memory of the test.
class SparedHearer final : public test::Hearer {
 public:
  using Hearer::Hearer;
  void on_end(const AnswerSummary& summary) noexcept override {
    const test::Spared spared;
    Hearer::on_end(summary);
  }
};

std::vector<AnswerRequest> requests(EngineTrial* trial) {
  AnswerRequest rich = seeded(told("One day the fox"), 3);
  rich.max_tokens = 6;
  rich.n_choices = 2;
  rich.n_top = 3;
  rich.stops = test::shared_stops({"a stop string that is not there at all, and is long", "zq"});
  AnswerRequest json = asking("A person:", 8);
  std::string problem;
  json.guide = trial->engine().schemas().compile(
      R"({"type":"array","items":{"type":"integer"},"maxItems":3})", &problem);
  AnswerRequest stopped = asking("Once upon a time there was", 40);
  stopped.stops = test::shared_stops({"e"});
  test::forbid_ends(&stopped);
  AnswerRequest wrong = asking("Hello", 3);
  wrong.prompt.push_back(UINT32_MAX);
  return {rich, json, stopped, wrong};
}

std::shared_ptr<SparedHearer> begin(EngineTrial* trial, const AnswerRequest& request,
                                    uint64_t* id) {
  auto hearer = std::make_shared<SparedHearer>(request.n_choices);
  EXPECT_EQ(trial->engine().submit(request, hearer, id), SubmitResult::kTaken);
  return hearer;
}

// Asks all at once; the number of choices that had no memory.
size_t ask_all(EngineTrial* trial, const std::vector<std::vector<HeardChoice>>* expected,
               std::vector<std::vector<HeardChoice>>* heard) {
  std::vector<std::shared_ptr<SparedHearer>> hearers;
  uint64_t id = 0;
  const std::vector<AnswerRequest> wishes = requests(trial);
  for (const AnswerRequest& wish : wishes) hearers.push_back(begin(trial, wish, &id));
  const auto left = begin(trial, wishes[2], &id);
  trial->engine().cancel(id);
  (void)left->all();
  size_t n_failed = 0;
  for (size_t i = 0; i < hearers.size(); ++i) {
    const std::vector<HeardChoice> choices = hearers[i]->all();
    for (size_t j = 0; j < choices.size(); ++j) {
      if (choices[j].ends.at(0).end == AnswerEnd::kNoMemory) {
        ++n_failed;
      } else if (expected != nullptr) {
        EXPECT_EQ(choices[j].text, (*expected)[i][j].text) << i << "." << j;
        EXPECT_EQ(choices[j].ends[0].end, (*expected)[i][j].ends[0].end) << i << "." << j;
      }
    }
    if (heard != nullptr) heard->push_back(choices);
  }
  return n_failed;
}

TEST(EngineMemory, AFailedAllocationEndsOneRequest) {
  const test::Spared spared;
  EngineTrial trial(demo_path(), {.n_sessions = 2, .options = {.log = [](const std::string&) {}}});
  std::vector<std::vector<HeardChoice>> expected;
  ASSERT_EQ(ask_all(&trial, nullptr, &expected), 0u);
  size_t n_failed = 0;
  int64_t n = 0;
  for (; n < 10000; ++n) {
    SCOPED_TRACE(n);
    test::fail_allocations(n, 1);
    const size_t n_choices = ask_all(&trial, &expected, nullptr);
    if (!test::stop_failing()) break;
    EXPECT_LE(n_choices, 2u);  // two choices of one request have one prompt
    n_failed += n_choices;
    if (HasFailure()) return;
  }
  EXPECT_GT(n, 50);
  EXPECT_GT(n_failed, 50u);
  for (const SessionStatus& status : trial.engine().sessions()) EXPECT_FALSE(status.is_processing);
}

TEST(EngineMemory, WhileThereIsNoneEveryRequestEnds) {
  const test::Spared spared;
  EngineTrial trial(demo_path(), {.n_sessions = 2});
  std::vector<std::vector<HeardChoice>> expected;
  ASSERT_EQ(ask_all(&trial, nullptr, &expected), 0u);
  for (int64_t n = 0; n < 100; n += 7) {
    test::fail_allocations(n, test::kAllThatFollow);
    EXPECT_GT(ask_all(&trial, nullptr, nullptr), 0u);
    EXPECT_TRUE(test::stop_failing());
    EXPECT_EQ(ask_all(&trial, &expected, nullptr), 0u);
  }
  EXPECT_GT(trial.engine().counts().n_failed, 15u);
}

// Submitting is another thread's.
TEST(EngineMemory, WhatCannotBeSubmittedIsNotTaken) {
  EngineTrial trial(demo_path(), {});
  const AnswerRequest wish = asking("Hello", 2);
  for (int64_t n = 0;; ++n) {
    const auto hearer = std::make_shared<SparedHearer>(1);
    AnswerRequest copy = wish;
    uint64_t id = 0;
    test::fail_allocations(n, 1);
    bool is_taken = true;
    try {
      trial.engine().submit(std::move(copy), hearer, &id);
    } catch (const std::bad_alloc&) {
      is_taken = false;
    }
    const bool has_failed = test::stop_failing();
    if (is_taken) (void)hearer->all();
    if (!has_failed) break;
    ASSERT_LT(n, 100);
  }
  EXPECT_EQ(trial.engine().counts().n_waiting, 0u);
  EXPECT_EQ(trial.ask(wish).ends.size(), 1u);
}

}  // namespace
}  // namespace cria::hosted
