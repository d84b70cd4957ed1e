// Conversations of a model whose layers' state cannot be cut back read no token twice without need.
#include <cria_chat.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/tiny_checkpoint.h"
#include "tests/system/chat_driver.h"

namespace cria {
namespace {

using test::Bytes;
using test::Chat;

constexpr uint32_t kContext = 8192;
constexpr uint32_t kAnswerTokens = 8;

const Bytes& lfm2(const std::string& chat_template = "") {
  static std::map<std::string, Bytes> models;
  Bytes& model = models[chat_template];
  if (model.empty()) {
    const auto folder = test::temporary_folder() / "lfm2_of_8192";
    test::write_tiny_lfm2(folder, kContext);
    model = test::convert_folder(folder, {.weights = format::NumberFormat::kInt4,
                                          .group_size = 32,
                                          .compression = format::Compression::kStored,
                                          .tokenizer = true,
                                          .chat_template = chat_template});
  }
  return model;
}

std::string long_system() {
  std::string text;
  while (text.size() < 5000) text += "cria " + std::to_string(text.size() % 97) + " knows; ";
  return text;
}

std::string question(int i) { return "What is " + std::to_string(i) + " + 3?"; }

Chat chat_of(const Bytes& file, uint32_t context, uint32_t n_snapshots = 0) {
  cria_config config = test::config_with(context);
  config.n_snapshots = n_snapshots;
  return {file, kAnswerTokens, cria_chat_config{}, config};
}

// What a fresh session reads says the same.
void expect_read_afresh(Chat* chat, const Bytes& file, uint32_t context) {
  Chat fresh = chat_of(file, context);
  const std::vector<uint32_t> tokens = chat->tokens();
  ASSERT_EQ(cria_prefill(fresh.session().workspace(), fresh.session().session(), tokens.data(),
                         tokens.size()),
            CRIA_OK);
  EXPECT_EQ(fresh.session().greedy(4), chat->session().greedy(4));
}

TEST(ChatSnapshots, FiftyTurnsOverALongSystemTextReadEachTokenOnce) {
  for (const uint32_t n_snapshots : {1u, 2u, 4u}) {
    SCOPED_TRACE(n_snapshots);
    Chat chat = chat_of(lfm2(), kContext, n_snapshots);
    chat.begin(long_system());
    uint32_t n_prefix = 0;
    uint32_t n_drawn = 0;  // and went through the model; that of an answer that is cut later
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(chat.say(question(i)), CRIA_OK);
      if (i == 0) n_prefix = chat.result().n_read;
      n_drawn += chat.result().n_answered - (chat.result().end == CRIA_CHAT_LIMIT ? 1 : 0);
    }
    EXPECT_GT(n_prefix, 4000u);
    EXPECT_EQ(cria_chat_n_dropped(chat.get()), 0u);
    EXPECT_EQ(cria_chat_n_read(chat.get()) + n_drawn, chat.tokens().size());
    expect_read_afresh(&chat, lfm2(), kContext);
  }
}

// Exchanges that leave make the others be read again, but never what stands before them.
TEST(ChatSnapshots, WhenExchangesLeaveTheSystemTextIsNotReadAgain) {
  constexpr uint32_t kRoom = 400;  // for what follows it
  Chat large = chat_of(lfm2(), kContext);
  large.begin(long_system());
  ASSERT_EQ(large.say(question(0)), CRIA_OK);
  const uint32_t n_first = large.result().n_read;
  EXPECT_GT(n_first, 4000u);
  Chat chat = chat_of(lfm2(), n_first + kRoom);
  chat.begin(long_system());
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(chat.say(question(i)), CRIA_OK);
    if (i == 0) {
      EXPECT_EQ(chat.result().n_read, n_first);
    } else {
      EXPECT_LT(chat.result().n_read, kRoom) << i;
    }
  }
  EXPECT_GT(cria_chat_n_dropped(chat.get()), 20u);
  expect_read_afresh(&chat, lfm2(), n_first + kRoom);
}

TEST(ChatSnapshots, AnotherAnswerReadsTheLastTokenAlone) {
  Chat chat = chat_of(lfm2(), 512);
  chat.begin("You are cria.");
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(chat.say(question(i)), CRIA_OK);
    cria_chat_options options = {};
    options.max_tokens = kAnswerTokens;
    cria_chat_result result = {};
    const std::string answer = chat.answer();
    ASSERT_EQ(
        cria_chat_answer(chat.get(), chat.session().workspace(), nullptr, 0, &options, &result),
        CRIA_OK);
    EXPECT_EQ(result.n_read, 1u);
    const cria_message said = chat.messages().back();
    EXPECT_EQ(std::string(said.text, said.n_bytes), answer);
  }
}

// As programs do that send the whole conversation each time.
TEST(ChatSnapshots, TheSameConversationAgainReadsTheLastTokenAlone) {
  Chat chat = chat_of(lfm2(), 512);
  std::string answer;
  for (int i = 0; i < 3; ++i) {
    chat.begin("You are cria.");
    ASSERT_EQ(chat.say(question(1)), CRIA_OK);
    if (i > 0) {
      EXPECT_EQ(chat.result().n_read, 1u);
      EXPECT_EQ(chat.answer(), answer);
    }
    answer = chat.answer();
  }
}

// What opens a thought is no part of the conversation that goes on.
TEST(ChatSnapshots, WhatOpensAnAnswerIsNotKept) {
  const Bytes& file = lfm2(test::kThinkingTemplate);
  Chat chat = chat_of(file, kContext);
  chat.begin(long_system());
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(chat.say(question(i)), CRIA_OK);
    if (i > 0) {
      EXPECT_LT(chat.result().n_read, 200u) << i;
    }
  }
  expect_read_afresh(&chat, file, kContext);
}

}  // namespace
}  // namespace cria
