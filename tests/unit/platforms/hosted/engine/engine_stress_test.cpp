// Hundreds of requests at random from several threads, some of which give up.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/support/engine_trial.h"

namespace cria::hosted {
namespace {

using test::asking;
using test::demo_path;
using test::drawn_alone;
using test::EngineTrial;
using test::HeardChoice;
using test::Hearer;
using test::seeded;
using test::told;

constexpr uint32_t kClients = 4;
constexpr uint32_t kRequestsOfEach = 50;

struct Known {
  AnswerRequest request;
  std::vector<uint32_t> tokens;
};

std::vector<Known> known_answers() {
  std::vector<Known> result;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const AnswerRequest requests[] = {seeded("Once upon a time", seed),
                                      seeded(told("One day the fox"), seed),
                                      seeded(told("One day the bear"), seed)};
    for (const AnswerRequest& request : requests) {
      result.push_back({request, drawn_alone(demo_path(), request)});
    }
  }
  return result;
}

// What one client saw.
struct Tally {
  uint32_t n_whole = 0;
  uint32_t n_cancelled = 0;
  uint32_t n_refused = 0;
};

void ask_at_random(EngineTrial* trial, const std::vector<Known>& known, uint32_t seed,
                   Tally* tally) {
  std::mt19937 random(seed);
  for (uint32_t i = 0; i < kRequestsOfEach; ++i) {
    const Known& chosen = known[random() % known.size()];
    AnswerRequest request = chosen.request;
    request.n_choices = random() % 8 == 0 ? 2 : 1;
    const auto hearer = std::make_shared<Hearer>(request.n_choices);
    uint64_t id = 0;
    while (trial->engine().submit(request, hearer, &id) == SubmitResult::kQueueFull) {
      ++tally->n_refused;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool gives_up = random() % 4 == 0;
    if (gives_up) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
      trial->engine().cancel(id);
    }
    const HeardChoice heard = hearer->all()[0];
    const std::vector<uint32_t> tokens = heard.token_ids();
    ASSERT_LE(tokens.size(), chosen.tokens.size());
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), chosen.tokens.begin()));
    if (heard.ends.at(0).end == AnswerEnd::kCancelled) {
      EXPECT_TRUE(gives_up);
      ++tally->n_cancelled;
    } else {
      EXPECT_EQ(tokens.size(), chosen.tokens.size());
      ++tally->n_whole;
    }
  }
}

TEST(EngineStress, AnswersStayWhatTheyAre) {
  const std::vector<Known> known = known_answers();
  EngineTrial trial(demo_path(),
                    {.n_sessions = 3, .prefill_chunk = 16, .options = {.max_waiting = 1}});
  std::vector<Tally> tallies(kClients);
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] { ask_at_random(&trial, known, i + 1, &tallies[i]); });
  }
  for (std::thread& client : clients) client.join();
  Tally all;
  for (const Tally& tally : tallies) {
    all.n_whole += tally.n_whole;
    all.n_cancelled += tally.n_cancelled;
    all.n_refused += tally.n_refused;
  }
  EXPECT_EQ(all.n_whole + all.n_cancelled, kClients * kRequestsOfEach);
  EXPECT_GT(all.n_cancelled, 10u);
  EXPECT_GT(all.n_whole, 100u);
  const EngineCounts counts = trial.engine().counts();
  EXPECT_EQ(counts.n_requests, uint64_t{kClients} * kRequestsOfEach);
  EXPECT_EQ(counts.n_refused, all.n_refused);
  EXPECT_EQ(counts.n_busy + counts.n_waiting, 0u);
  EXPECT_EQ(counts.n_failed, 0u);
  EXPECT_GT(counts.n_cached_tokens, 1000u);
  for (const SessionStatus& status : trial.engine().sessions()) {
    EXPECT_FALSE(status.is_processing);
  }
}

}  // namespace
}  // namespace cria::hosted
