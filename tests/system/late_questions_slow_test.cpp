// What dropping the oldest exchanges costs: the demo's questions, asked one after the other in one
// conversation that is many times as long as its context.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/support/model_files.h"
#include "tests/system/chat_driver.h"

namespace cria {
namespace {

constexpr uint32_t kContext = 512;
constexpr uint32_t kMaxTokens = 80;
// The first ones are asked before the context has been full.
constexpr size_t kWarmUp = 40;
// Orders of the questions: one conversation says as little as a few hundred coins.
constexpr uint32_t kOrders = 4;

struct Question {
  std::string text;
  std::vector<std::string> answers;  // any of them is right
};

// Those that have an answer and need no message before them.
std::vector<Question> questions(uint32_t order) {
  std::ifstream file(test::demo_folder() / "questions.jsonl");
  std::vector<Question> all;
  for (std::string line; std::getline(file, line);) {
    const auto question = nlohmann::json::parse(line);
    if (!question.contains("answers") || question.at("messages").size() != 1) continue;
    all.push_back({question["messages"][0]["content"], question["answers"]});
  }
  std::shuffle(all.begin(), all.end(), std::mt19937(order));
  return all;
}

struct Asked {
  std::vector<std::string> answers;
  size_t n_right = 0;  // after the warm-up
  uint64_t n_answered = 0;
  uint64_t n_read = 0;
  uint64_t n_dropped = 0;
};

Asked ask_all(const test::Bytes& model, const std::vector<Question>& all, bool exact) {
  cria_chat_config config = {};
  config.exact_context = exact ? 1 : 0;
  test::Chat chat(model, kMaxTokens, kContext, config);
  Asked asked;
  for (size_t i = 0; i < all.size(); ++i) {
    test::need(chat.say(all[i].text));
    asked.n_answered += chat.result().n_answered;
    const auto& right = all[i].answers;
    const bool is_right = std::find(right.begin(), right.end(), chat.answer()) != right.end();
    if (i >= kWarmUp && is_right) ++asked.n_right;
    asked.answers.push_back(chat.answer());
  }
  asked.n_read = cria_chat_n_read(chat.get());
  asked.n_dropped = cria_chat_n_dropped(chat.get());
  return asked;
}

TEST(LateQuestions, AreAnsweredAsWellAfterDroppingAsAfterReadingAgain) {
  const test::Bytes model = test::convert_folder(
      test::demo_folder(), {format::NumberFormat::kInt4, 32, format::Compression::kStored, true});
  size_t n = 0;
  size_t n_same = 0;
  size_t n_right_dropped = 0;
  size_t n_right_read_again = 0;
  for (uint32_t order = 1; order <= kOrders; ++order) {
    const std::vector<Question> all = questions(order);
    ASSERT_GT(all.size(), 600u);
    const Asked dropped = ask_all(model, all, false);
    const Asked read_again = ask_all(model, all, true);
    n += all.size() - kWarmUp;
    n_right_dropped += dropped.n_right;
    n_right_read_again += read_again.n_right;
    for (size_t i = kWarmUp; i < all.size(); ++i) {
      n_same += dropped.answers[i] == read_again.answers[i] ? 1 : 0;
    }
    // A conversation many times its context, in which nothing that stays is read again.
    EXPECT_GT(dropped.n_answered, 10000u);
    EXPECT_GT(dropped.n_dropped, 500u);
    EXPECT_LT(dropped.n_read, read_again.n_read / 3);
  }
  const double share_dropped = static_cast<double>(n_right_dropped) / static_cast<double>(n);
  const double share_read_again = static_cast<double>(n_right_read_again) / static_cast<double>(n);
  std::printf(
      "%zu questions behind a full context: dropped %.1f %% right, read again %.1f %%, "
      "the same answer %.1f %%\n",
      n, 100 * share_dropped, 100 * share_read_again,
      100 * static_cast<double>(n_same) / static_cast<double>(n));
  // 2.3 points are measured (docs/adr/0006-conversations.md), 1.2 of standard error.
  EXPECT_GE(share_dropped, share_read_again - 0.03);
}

}  // namespace
}  // namespace cria
