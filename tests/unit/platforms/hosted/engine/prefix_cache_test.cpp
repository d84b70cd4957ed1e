// What prompts have in common is kept on the disk and found after a restart, and no bit of an
// answer shows it.
#include "platforms/hosted/engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>

#include "tests/support/engine_trial.h"
#include "tests/support/folders.h"
#include "tests/support/model_surgery.h"
#include "tests/support/patience.h"
#include "tests/support/seeds.h"

namespace cria::hosted {
namespace {

namespace fs = std::filesystem;
using test::EngineTrial;
using test::EngineWish;
using test::HeardChoice;
using Tokens = std::vector<uint32_t>;

std::mutex log_mutex;
std::vector<std::string> log_lines;
void keep_line(const std::string& line) {
  const std::lock_guard lock(log_mutex);
  if (line.starts_with("prefix cache: ")) log_lines.push_back(line);
}
std::vector<std::string> take_lines() {
  const std::lock_guard lock(log_mutex);
  return std::exchange(log_lines, {});
}

Tokens some_tokens(size_t n, uint32_t salt) {
  Tokens tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<uint32_t>((i * 7 + i * i + salt) % 2000);
  return tokens;
}

// As few as those of all models.
Tokens of_lfm2(Tokens tokens) {
  for (uint32_t& token : tokens) token %= test::kTokensOfLfm2;
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

AnswerRequest asking(const Tokens& prompt, uint32_t n_lead = 0) {
  AnswerRequest request;
  request.prompt = prompt;
  request.max_tokens = 6;
  request.n_top = 3;
  request.n_lead = n_lead;
  request.seed = prompt.back();  // a state brings the random numbers of who wrote it
  request.sampling.temperature = 1.0f;
  return request;
}

std::string model_with_window(uint32_t window) {
  if (window == 0) return test::demo_path();
  test::Bytes file = test::read_file(test::demo_path());
  test::set_sliding_window(file, window);
  return test::written("prefix_window" + std::to_string(window) + ".cria", file);
}

class PrefixCacheTest : public testing::Test {
 protected:
  PrefixCacheTest() {
    fs::remove_all(folder_);
    take_lines();
  }
  ~PrefixCacheTest() override { fs::remove_all(folder_); }

  EngineWish wish(uint32_t n_sessions = 1) const {
    EngineWish wish;
    wish.n_sessions = n_sessions;
    wish.options.log = &keep_line;
    wish.prefix_folder = folder_.string();
    return wish;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path());
    return all;
  }
  static void expect_same(const HeardChoice& heard, const HeardChoice& fresh) {
    EXPECT_EQ(heard.text, fresh.text);
    ASSERT_EQ(heard.token_ids(), fresh.token_ids());
    for (size_t i = 0; i < heard.tokens.size(); ++i) {
      EXPECT_EQ(heard.tokens[i].logprob, fresh.tokens[i].logprob) << i;
      for (size_t k = 0; k < heard.tokens[i].top.size(); ++k) {
        EXPECT_EQ(heard.tokens[i].top[k].token, fresh.tokens[i].top[k].token);
        EXPECT_EQ(heard.tokens[i].top[k].logprob, fresh.tokens[i].top[k].logprob);
      }
    }
  }

  const fs::path folder_ = test::temporary_folder() / "prefix_cache";
};

TEST_F(PrefixCacheTest, WhatCameTwiceIsFoundAfterARestart) {
  const Tokens lead = of_lfm2(some_tokens(200, 1));
  const auto prompt = [&](uint32_t salt) {
    return joined(lead, of_lfm2(some_tokens(30, 3 * salt + 1)));
  };
  for (const std::string& path : {test::demo_path(), test::lfm2_path()}) {
    for (const uint32_t n_lead : {0U, 200U}) {
      SCOPED_TRACE(path + ", lead " + std::to_string(n_lead));
      fs::remove_all(folder_);
      {
        EngineTrial first(path, wish());
        EXPECT_EQ(first.ask(asking(prompt(1), n_lead)).ends.at(0).n_cached, 0U);
        EXPECT_TRUE(files().empty());  // once is not twice
        // Of blocks of state nothing was kept where nobody said that the lead ends.
        const bool is_kept = path == test::demo_path() || n_lead != 0;
        EXPECT_EQ(first.ask(asking(prompt(2), n_lead)).ends.at(0).n_cached, is_kept ? 200U : 0U);
      }
      EXPECT_EQ(files().size(), 1U);
      EngineTrial second(path, wish());
      const HeardChoice heard = second.ask(asking(prompt(3), n_lead));
      EXPECT_EQ(heard.ends.at(0).n_cached, 200U);
      EngineTrial fresh(path, {});
      expect_same(heard, fresh.ask(asking(prompt(3))));
      EXPECT_TRUE(take_lines().empty());
    }
  }
}

TEST_F(PrefixCacheTest, AConversationThatGoesOnKeepsItsLeadAlone) {
  constexpr uint32_t kLead = 100;
  Tokens conversation = joined(some_tokens(kLead, 1), some_tokens(30, 2));
  const Tokens first = conversation;
  for (const uint32_t n_lead : {0U, kLead}) {
    EngineTrial trial(test::demo_path(), wish());
    conversation = first;
    for (uint32_t turn = 0; turn < 3; ++turn) {
      const HeardChoice heard = trial.ask(asking(conversation, n_lead));
      conversation = joined(joined(conversation, heard.token_ids()), some_tokens(30, turn + 9));
    }
  }
  ASSERT_EQ(files().size(), 1U);
  EngineTrial trial(test::demo_path(), wish());
  EXPECT_EQ(trial.prefixes().find(conversation).n_usable, kLead);
}

TEST_F(PrefixCacheTest, QuestionsThatBeginAlikeAreNoPartOfALead) {
  const Tokens lead = some_tokens(100, 1);
  const Tokens alike = some_tokens(5, 4);
  {
    EngineTrial trial(test::demo_path(), wish());
    for (const uint32_t salt : {1U, 2U}) {
      (void)trial.ask(asking(joined(joined(lead, alike), some_tokens(20, 5 * salt)), 100));
    }
  }
  EngineTrial trial(test::demo_path(), wish());
  const Tokens whole = joined(lead, joined(alike, {1}));
  EXPECT_EQ(trial.prefixes().find(whole).prefix->tokens, lead);
}

TEST_F(PrefixCacheTest, APromptThatComesAgainIsKeptButForItsEnd) {
  const Tokens prompt = some_tokens(150, 1);
  {
    EngineTrial trial(test::demo_path(), wish());
    for (int i = 0; i < 3; ++i) (void)trial.ask(asking(prompt));
  }
  EXPECT_EQ(files().size(), 1U);
  EngineTrial trial(test::demo_path(), wish());
  EXPECT_EQ(trial.ask(asking(prompt)).ends.at(0).n_cached, 149U);
}

TEST_F(PrefixCacheTest, ShortBeginningsAreNotKept) {
  const Tokens lead = some_tokens(63, 1);
  {
    EngineTrial trial(test::demo_path(), wish());
    for (const uint32_t salt : {1U, 2U, 3U}) {
      (void)trial.ask(asking(joined(lead, some_tokens(20, 5 * salt))));
    }
  }
  EXPECT_TRUE(files().empty());
}

// Three leads, questions of all lengths, one to three at once, engines that begin again.
TEST_F(PrefixCacheTest, NoBitOfAnAnswerShowsWhatTheDiskHeld) {
  constexpr int kRounds = 8;
  for (const std::string& path :
       {model_with_window(0), model_with_window(16), model_with_window(48), test::lfm2_path()}) {
    for (const cria_kv_format format : {CRIA_KV_INT8, CRIA_KV_K8V4, CRIA_KV_F32}) {
      test::for_each_seed({1}, [&](uint32_t seed) {
        fs::remove_all(folder_);
        std::mt19937 random(seed);
        const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random()) % n; };
        EngineWish kept = wish(1 + below(3));
        kept.context = 256;
        kept.prefill_chunk = below(2) == 0 ? 0 : 16;
        kept.kv_format = format;
        EngineWish fresh = {.context = 256, .kv_format = format};
        uint32_t n_from_disk = 0;
        std::unique_ptr<EngineTrial> trial;
        for (int round = 0; round < kRounds; ++round) {
          SCOPED_TRACE(path + ", kv " + std::to_string(format) + ", round " +
                       std::to_string(round));
          const bool begins_again = round % 2 == 0;
          if (begins_again) {
            trial.reset();
            trial = std::make_unique<EngineTrial>(path, kept);
          }
          std::vector<AnswerRequest> requests;
          std::vector<std::shared_ptr<test::Hearer>> hearers;
          for (uint32_t n = 1 + below(3); n > 0; --n) {
            const Tokens lead = some_tokens(70 + 40 * below(2), 1);
            const uint32_t n_lead = below(2) == 0 ? 0 : static_cast<uint32_t>(lead.size());
            const Tokens all = joined(lead, some_tokens(1 + below(90), below(50)));
            requests.push_back(asking(path == test::lfm2_path() ? of_lfm2(all) : all, n_lead));
            hearers.push_back(trial->begin(requests.back()));
          }
          for (size_t i = 0; i < requests.size(); ++i) {
            const HeardChoice heard = hearers[i]->all().at(0);
            EngineTrial alone(path, fresh);
            expect_same(heard, alone.ask(requests[i]));
            if (begins_again && i == 0) n_from_disk += heard.ends.at(0).n_cached;
            if (testing::Test::HasFailure()) return;
          }
        }
        EXPECT_GT(n_from_disk, 0U);
      });
    }
  }
  EXPECT_TRUE(take_lines().empty());
}

// What a session with a sliding window has of a prompt may be no use for what follows.
TEST_F(PrefixCacheTest, TheDiskHasWhatARingForgot) {
  const std::string path = model_with_window(16);
  const Tokens lead = some_tokens(200, 1);
  const auto prompt = [&](uint32_t salt) { return joined(lead, some_tokens(130, 3 * salt + 1)); };
  EngineTrial trial(path, wish());
  EXPECT_EQ(trial.ask(asking(prompt(1))).ends.at(0).n_cached, 0U);
  EXPECT_EQ(trial.ask(asking(prompt(2))).ends.at(0).n_cached, 0U);
  ASSERT_TRUE(test::becomes_true([&] { return trial.prefixes().counts().n_prefixes == 1; }));
  const HeardChoice heard = trial.ask(asking(prompt(3)));
  EXPECT_EQ(heard.ends.at(0).n_cached, 200U);
  EngineTrial fresh(path, {});
  expect_same(heard, fresh.ask(asking(prompt(3))));
}

TEST_F(PrefixCacheTest, AChangedStateIsRefusedToldAndRemoved) {
  const Tokens lead = some_tokens(200, 1);
  const auto prompt = [&](uint32_t salt) { return joined(lead, some_tokens(30, 3 * salt + 1)); };
  const auto fill = [&] {
    EngineTrial trial(test::demo_path(), wish());
    for (const uint32_t salt : {1U, 2U}) (void)trial.ask(asking(prompt(salt)));
  };
  fill();
  const fs::path file = files().at(0);
  {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(fs::file_size(file) - 1000));
    stream.put('\x7e');
  }
  {
    EngineTrial trial(test::demo_path(), wish());
    const HeardChoice heard = trial.ask(asking(prompt(3)));
    EXPECT_EQ(heard.ends.at(0).n_cached, 0U);
    EngineTrial fresh(test::demo_path(), {});
    expect_same(heard, fresh.ask(asking(prompt(3))));
  }
  const std::vector<std::string> lines = take_lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("damaged; removed"), std::string::npos) << lines[0];
  EXPECT_TRUE(files().empty());
  fill();
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(PrefixCacheTest, AFolderThatGoesAwayIsToldOnce) {
  const auto prompt = [&](uint32_t i) {
    return joined(some_tokens(90, i / 2), some_tokens(9, 4 * i));
  };
  {
    EngineTrial trial(test::demo_path(), wish());
    fs::remove_all(folder_);
    for (uint32_t i = 0; i < 6; ++i) {
      EXPECT_NE(trial.ask(asking(prompt(i))).ends.at(0).end, AnswerEnd::kFailed);
    }
  }
  EXPECT_EQ(take_lines().size(), 1U);
}

TEST_F(PrefixCacheTest, WhoLeavesWhileAStateComesHarmsNobody) {
  const Tokens lead = some_tokens(200, 1);
  const auto prompt = [&](uint32_t salt) { return joined(lead, some_tokens(30, 3 * salt + 1)); };
  {
    EngineTrial trial(test::demo_path(), wish());
    for (const uint32_t salt : {1U, 2U}) (void)trial.ask(asking(prompt(salt)));
  }
  EngineTrial fresh(test::demo_path(), {});
  const HeardChoice wanted = fresh.ask(asking(prompt(3)));
  for (int i = 0; i < 10; ++i) {
    EngineTrial trial(test::demo_path(), wish(2));
    uint64_t id = 0;
    const auto left = trial.begin(asking(prompt(4)), &id);
    const auto stays = trial.begin(asking(prompt(3)));
    trial.engine().cancel(id);
    expect_same(stays->all().at(0), wanted);
    EXPECT_EQ(left->all().at(0).ends.size(), 1U);
  }
}

}  // namespace
}  // namespace cria::hosted
