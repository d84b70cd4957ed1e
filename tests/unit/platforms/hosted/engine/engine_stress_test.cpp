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

std::vector<Known> known_answers(const std::string& path,
                                 const std::vector<AnswerRequest>& requests) {
  std::vector<Known> result;
  for (const AnswerRequest& request : requests) {
    result.push_back({request, drawn_alone(path, request)});
  }
  return result;
}

std::vector<AnswerRequest> demo_requests() {
  std::vector<AnswerRequest> requests;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    requests.push_back(seeded("Once upon a time", seed));
    requests.push_back(seeded(told("One day the fox"), seed));
    requests.push_back(seeded(told("One day the bear"), seed));
  }
  return requests;
}

// To a model with a sliding window, long enough for its ring to go round.
std::vector<AnswerRequest> sliding_requests() {
  std::vector<AnswerRequest> requests;
  for (uint32_t i = 0; i < 12; ++i) {
    AnswerRequest request;
    for (uint32_t j = 0; j < 5 + 11 * i; ++j) {
      request.prompt.push_back((j < 40 ? 3 : 3 + i % 3) + j * 7 % 250);
    }
    request.max_tokens = 24;
    request.sampling.temperature = 1.0f;
    request.seed = i;
    requests.push_back(request);
  }
  return requests;
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
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
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

void expect_answers_stay(const std::string& path, const std::vector<AnswerRequest>& requests) {
  const std::vector<Known> known = known_answers(path, requests);
  EngineTrial trial(path, {.n_sessions = 3, .prefill_chunk = 16, .options = {.max_waiting = 1}});
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
  EXPECT_GT(all.n_whole, 100u);
  const EngineCounts counts = trial.engine().counts();
  EXPECT_EQ(counts.n_requests, uint64_t{kClients} * kRequestsOfEach);
  EXPECT_EQ(counts.n_refused, all.n_refused);
  EXPECT_EQ(counts.n_busy + counts.n_waiting, 0u);
  EXPECT_EQ(counts.n_failed, 0u);
  EXPECT_GT(counts.n_cached_tokens, 0u);
  for (const SessionStatus& status : trial.engine().sessions()) {
    EXPECT_FALSE(status.is_processing);
  }
}

TEST(EngineStress, AnswersStayWhatTheyAre) { expect_answers_stay(demo_path(), demo_requests()); }

TEST(EngineStress, AnswersStayWhatTheyAreWithASlidingWindow) {
  expect_answers_stay(
      test::written("sliding.cria",
                    test::convert_folder(test::golden_folder("mistral-sliding-window"),
                                         {format::NumberFormat::kInt8})),
      sliding_requests());
}

}  // namespace
}  // namespace cria::hosted
