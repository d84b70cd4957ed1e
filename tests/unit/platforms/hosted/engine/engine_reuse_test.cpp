// What a session holds from requests before is reused, and no request's bits show it: random
// prompts that go on, branch off and end early, alone and several at once, against a fresh session
// each.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/engine_trial.h"
#include "tests/support/model_surgery.h"
#include "tests/support/seeds.h"
#include "tests/support/some_tokens.h"

namespace cria {
namespace {

using hosted::AnswerRequest;
using test::EngineTrial;
using test::EngineWish;
using test::HeardChoice;

// The demo that looks back so many positions; 0: to all.
std::string demo_with_window(uint32_t window) {
  if (window == 0) return test::demo_path();
  test::Bytes file = test::read_file(test::demo_path());
  test::set_sliding_window(file, window);
  return test::written("window" + std::to_string(window) + ".cria", file);
}

// Tokens, probabilities and the end.
void expect_same(const HeardChoice& heard, const HeardChoice& fresh) {
  ASSERT_EQ(heard.ends.size(), 1U);
  EXPECT_EQ(heard.ends[0].end, fresh.ends[0].end);
  EXPECT_EQ(heard.text, fresh.text);
  ASSERT_EQ(heard.token_ids(), fresh.token_ids());
  for (size_t i = 0; i < heard.tokens.size(); ++i) {
    EXPECT_EQ(heard.tokens[i].logprob, fresh.tokens[i].logprob) << i;
    ASSERT_EQ(heard.tokens[i].top.size(), fresh.tokens[i].top.size());
    for (size_t k = 0; k < heard.tokens[i].top.size(); ++k) {
      EXPECT_EQ(heard.tokens[i].top[k].token, fresh.tokens[i].top[k].token) << i;
      EXPECT_EQ(heard.tokens[i].top[k].logprob, fresh.tokens[i].top[k].logprob) << i;
    }
  }
}

class RandomPrompts {
 public:
  RandomPrompts(uint32_t seed, uint32_t context, uint32_t n_tokens)
      : random_(seed), context_(context), n_tokens_(n_tokens) {
    texts_.push_back(test::demo_tokens(test::told("Who are they?")));
    for (uint32_t& token : texts_[0]) token %= n_tokens;
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_()) % n; }

  // A text of before, as it was, without its end or with another one.
  AnswerRequest request(uint32_t n_sessions) {
    std::vector<uint32_t> prompt = texts_[below(static_cast<uint32_t>(texts_.size()))];
    const uint32_t kind = below(4);
    if (kind >= 2) prompt.resize(1 + below(static_cast<uint32_t>(prompt.size())));
    if (kind % 2 == 1) {
      for (uint32_t n = 1 + below(20); n > 0; --n) prompt.push_back(below(n_tokens_));
    }
    prompt.resize(std::min<size_t>(prompt.size(), context_ - 1));
    AnswerRequest request;
    request.prompt = prompt;
    request.max_tokens = 1 + below(12);
    request.n_top = 3;
    request.n_choices = 1 + below(n_sessions);
    request.n_lead = below(3) == 0 ? below(static_cast<uint32_t>(prompt.size())) : 0;
    request.n_turn = below(3) == 0 ? below(static_cast<uint32_t>(prompt.size())) : 0;
    request.seed = below(1000);
    request.sampling.temperature = below(2) == 0 ? 0.0f : 1.0f;
    request.sampling.repeat_penalty = 1.1f;
    return request;
  }
  void note(const AnswerRequest& request, const HeardChoice& heard) {
    std::vector<uint32_t> text = request.prompt;
    for (const uint32_t token : heard.token_ids()) text.push_back(token);
    texts_.push_back(text);
  }

 private:
  std::mt19937 random_;
  uint32_t context_;
  uint32_t n_tokens_;
  std::vector<std::vector<uint32_t>> texts_;
};

TEST(EngineReuse, NoBitOfAnAnswerShowsWhatItsSessionHeld) {
  constexpr int kRounds = 7;
  struct Model {
    std::string name;
    std::string path;
    uint32_t n_tokens;
  };
  constexpr uint32_t kTokensOfDemo = 2000;
  for (const Model& model : {Model{"demo", demo_with_window(0), kTokensOfDemo},
                             {"window 16", demo_with_window(16), kTokensOfDemo},
                             {"window 48", demo_with_window(48), kTokensOfDemo},
                             {"lfm2", test::lfm2_path(), test::kTokensOfLfm2}}) {
    const std::string& path = model.path;
    for (const EngineWish& wish :
         {EngineWish{.n_sessions = 1, .context = 128, .prefill_chunk = 0},
          EngineWish{.n_sessions = 2, .context = 96, .prefill_chunk = 8},
          EngineWish{.n_sessions = 3, .context = 256, .prefill_chunk = 16}}) {
      test::for_each_seed({1}, [&](uint32_t seed) {
        RandomPrompts prompts(seed, wish.context, model.n_tokens);
        EngineTrial trial(path, wish);
        uint32_t n_cached = 0;
        for (int round = 0; round < kRounds; ++round) {
          SCOPED_TRACE(model.name + ", sessions " + std::to_string(wish.n_sessions) + ", round " +
                       std::to_string(round));
          std::vector<AnswerRequest> requests;
          std::vector<std::shared_ptr<test::Hearer>> hearers;
          for (uint32_t n = 1 + prompts.below(3); n > 0; --n) {
            requests.push_back(prompts.request(wish.n_sessions));
            hearers.push_back(trial.begin(requests.back()));
          }
          for (size_t i = 0; i < requests.size(); ++i) {
            const std::vector<HeardChoice> all = hearers[i]->all();
            for (size_t choice = 0; choice < all.size(); ++choice) {
              AnswerRequest alone = requests[i];
              alone.n_choices = 1;
              alone.seed += choice;
              EngineTrial fresh(path, {.n_sessions = 1, .context = wish.context});
              expect_same(all[choice], fresh.ask(alone));
              if (!all[choice].ends.empty()) n_cached += all[choice].ends[0].n_cached;
            }
            prompts.note(requests[i], all[0]);
            if (testing::Test::HasFailure()) return;
          }
        }
        EXPECT_GT(n_cached, 0U);
      });
    }
  }
}

// Of a model whose layers keep blocks of state as of any other.
TEST(EngineReuse, ThePromptThatCameBeforeIsReadButForWhatAnAnswerNeeds) {
  for (const std::string& path : {test::demo_path(), test::lfm2_path()}) {
    SCOPED_TRACE(path);
    EngineTrial trial(path, {.n_sessions = 2, .context = 400});
    AnswerRequest request;
    request.max_tokens = 5;
    request.n_lead = 200;
    request.prompt = test::some_tokens(250, test::kTokensOfLfm2, 1);
    const auto ask = [&] { return trial.ask(request).ends.at(0).n_cached; };
    EXPECT_EQ(ask(), 0U);
    EXPECT_EQ(ask(), 249U);
    // Choices that have another session copy it.
    request.n_choices = 2;
    for (const HeardChoice& choice : trial.ask_all(request)) {
      EXPECT_EQ(choice.ends.at(0).n_cached, 249U);
    }
    request.n_choices = 1;
    // It goes on.
    const std::vector<uint32_t> more = test::some_tokens(30, test::kTokensOfLfm2, 2);
    request.prompt.insert(request.prompt.end(), more.begin(), more.end());
    EXPECT_GE(ask(), 249U);
    EXPECT_EQ(ask(), 279U);
    // Another question after the same lead, in another session or the same.
    for (const uint32_t salt : {3U, 4U, 5U}) {
      request.prompt.resize(200);
      request.prompt.push_back(salt);
      const std::vector<uint32_t> other = test::some_tokens(60, test::kTokensOfLfm2, salt);
      request.prompt.insert(request.prompt.end(), other.begin(), other.end());
      EXPECT_EQ(ask(), 200U) << salt;
    }
  }
}

// Nobody said where it ends.
TEST(EngineReuse, WhatTwoPromptsBeginWithIsKeptForTheThird) {
  for (const std::string& path : {test::demo_path(), test::lfm2_path()}) {
    SCOPED_TRACE(path);
    EngineTrial trial(path, {.n_sessions = 1, .context = 400});
    AnswerRequest request;
    request.max_tokens = 5;
    for (uint32_t i = 0; i < 4; ++i) {
      request.prompt = test::some_tokens(250, test::kTokensOfLfm2, 1);
      request.prompt.push_back(i);
      const std::vector<uint32_t> other = test::some_tokens(60, test::kTokensOfLfm2, i);
      request.prompt.insert(request.prompt.end(), other.begin(), other.end());
      const uint32_t n_cached = trial.ask(request).ends.at(0).n_cached;
      if (i >= 2) {
        EXPECT_EQ(n_cached, 250U) << i;
      }
    }
  }
}

}  // namespace
}  // namespace cria
