// cria_chat: taking back, saying it differently, answering again. What follows has the bits of a
// conversation that never had the rest.
#include <cria_chat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tests/system/chat_driver.h"
#include "tests/system/tiny_chat_model.h"

namespace cria {
namespace {

using test::Bytes;
using test::Chat;
using test::tiny_model;

constexpr uint32_t kAnswerTokens = 12;

const Bytes& demo() {
  static const Bytes model = test::convert_folder(
      test::demo_folder(), {format::NumberFormat::kInt4, 32, format::Compression::kStored, true});
  return model;
}

void keep(Chat* chat, size_t n) { ASSERT_EQ(cria_chat_keep(chat->get(), n), CRIA_OK); }

// Draws at random where there is a seed, and notes the tokens of the answer.
struct Asked {
  cria_status status = CRIA_OK;
  std::string text;
  std::vector<uint32_t> tokens;
  cria_chat_result result = {};
};

Asked answer(Chat* chat, const char* text, float temperature, uint32_t max_tokens) {
  Asked asked;
  cria_chat_options options = {};
  options.sampling.temperature = temperature;
  options.max_tokens = max_tokens;
  options.context = &asked;
  options.on_text = [](void* context, uint32_t token, const char* piece, size_t n_bytes) {
    auto* to = static_cast<Asked*>(context);
    to->text.append(piece, n_bytes);
    if (token != CRIA_NO_TOKEN) to->tokens.push_back(token);
    return 0;
  };
  const size_t n_bytes = text != nullptr ? std::string_view(text).size() : 0;
  asked.status = cria_chat_answer(chat->get(), chat->session().workspace(), text, n_bytes, &options,
                                  &asked.result);
  return asked;
}

// The saved bytes hold messages, tokens, KV cache, logits and the random state.
void expect_same(Chat* one, Chat* other) {
  EXPECT_EQ(one->text(), other->text());
  EXPECT_EQ(one->tokens(), other->tokens());
  EXPECT_TRUE(one->saved() == other->saved());
}

TEST(ChatEdit, AnExchangeTakenBackLeavesNoTrace) {
  for (const bool with_system : {false, true}) {
    for (size_t n_before = 0; n_before < 3; ++n_before) {
      Chat fresh(demo(), kAnswerTokens);
      Chat edited(demo(), kAnswerTokens);
      for (Chat* chat : {&fresh, &edited}) {
        chat->begin(with_system ? "You are a llama." : "");
        for (size_t i = 0; i < n_before; ++i) {
          ASSERT_EQ(chat->say("What is " + std::to_string(i) + " + 3?"), CRIA_OK);
        }
      }
      const size_t n_kept = cria_chat_n_messages(edited.get());
      ASSERT_EQ(edited.say("Tell me about the sea."), CRIA_OK);
      ASSERT_EQ(edited.say("And the moon?"), CRIA_OK);
      keep(&edited, n_kept);
      EXPECT_EQ(edited.text(), fresh.text());
      for (Chat* chat : {&fresh, &edited}) ASSERT_EQ(chat->say("Who are you?"), CRIA_OK);
      expect_same(&edited, &fresh);
    }
  }
}

TEST(ChatEdit, WhatIsKeptIsNotReadAgain) {
  Chat chat(demo(), kAnswerTokens);
  ASSERT_EQ(chat.say(std::string(200, 'a')), CRIA_OK);
  const uint32_t n_long = chat.result().n_read;
  ASSERT_EQ(chat.say("Who are you?"), CRIA_OK);
  keep(&chat, 2);
  ASSERT_EQ(chat.say("Who are you?"), CRIA_OK);
  EXPECT_LT(chat.result().n_read, n_long / 2);
  // Of a question that is answered again one token is.
  EXPECT_EQ(answer(&chat, nullptr, 0.0f, kAnswerTokens).result.n_read, 1u);
}

TEST(ChatEdit, TheSameQuestionAnsweredAgainHasTheSameLikeliestAnswer) {
  for (const bool with_system : {false, true}) {
    Chat chat(demo(), kAnswerTokens);
    chat.begin(with_system ? "You are a llama." : "");
    for (const char* text : {"What is a cria?", "Tell me more."}) {
      ASSERT_EQ(chat.say(text), CRIA_OK);
      const std::string first = chat.answer();
      const std::vector<uint8_t> saved = chat.saved();
      for (int i = 0; i < 2; ++i) {
        const Asked again = answer(&chat, nullptr, 0.0f, kAnswerTokens);
        ASSERT_EQ(again.status, CRIA_OK);
        EXPECT_EQ(again.text, first);
        EXPECT_TRUE(chat.saved() == saved);
      }
    }
  }
}

TEST(ChatEdit, AnsweredAgainAtRandomTheContextHoldsTheNewAnswer) {
  Chat chat(demo(), kAnswerTokens);
  ASSERT_EQ(chat.say("Hello!"), CRIA_OK);
  std::vector<std::string> texts;
  texts.push_back(answer(&chat, "Tell me a story.", 2.0f, kAnswerTokens).text);
  for (int i = 0; i < 4; ++i) {
    const Asked again = answer(&chat, nullptr, 2.0f, kAnswerTokens);
    texts.push_back(again.text);
    ASSERT_EQ(cria_chat_n_messages(chat.get()), 4u);
    const cria_message last = chat.messages()[3];
    EXPECT_EQ(std::string(last.text, last.n_bytes), again.text);
    std::vector<cria_message> asked = chat.messages();
    asked.pop_back();
    std::vector<uint32_t> want = chat.encoded_afresh(asked, 1);
    want.insert(want.end(), again.tokens.begin(), again.tokens.end());
    std::vector<uint32_t> held = chat.tokens();
    want.resize(held.size());  // the last token may not have been read
    EXPECT_EQ(held, want);
  }
  EXPECT_NE(std::count(texts.begin(), texts.end(), texts[0]), 5);
  ASSERT_EQ(chat.say("Who are you?"), CRIA_OK);
}

// A load forgets where the answer began; what others added never had such a place.
TEST(ChatEdit, AnswersOfAnyOriginCanBeReplaced) {
  Chat fresh(demo(), kAnswerTokens);
  ASSERT_EQ(fresh.say("What is a cria?"), CRIA_OK);
  const std::vector<uint8_t> saved = fresh.saved();
  Chat loaded(demo(), kAnswerTokens);
  ASSERT_EQ(cria_chat_load(loaded.get(), saved.data(), saved.size()), CRIA_OK);
  Chat added(demo(), kAnswerTokens);
  ASSERT_EQ(cria_chat_add(added.get(), CRIA_USER, "What is a cria?", 15), CRIA_OK);
  ASSERT_EQ(cria_chat_add(added.get(), CRIA_ASSISTANT, "Nobody knows.", 13), CRIA_OK);
  Chat read(demo(), kAnswerTokens);
  ASSERT_EQ(cria_chat_add(read.get(), CRIA_USER, "What is a cria?", 15), CRIA_OK);
  ASSERT_EQ(cria_chat_add(read.get(), CRIA_ASSISTANT, "Nobody knows.", 13), CRIA_OK);
  ASSERT_EQ(read.say("Tell me more."), CRIA_OK);
  keep(&read, 2);
  for (Chat* chat : {&loaded, &added, &read}) {
    ASSERT_EQ(answer(chat, nullptr, 0.0f, kAnswerTokens).status, CRIA_OK);
    expect_same(chat, &fresh);
  }
}

TEST(ChatEdit, AnswersOfOneQuestionThatLostItsAnswer) {
  Chat fresh(demo(), kAnswerTokens);
  Chat chat(demo(), kAnswerTokens);
  for (Chat* each : {&fresh, &chat}) {
    ASSERT_EQ(each->say("What is a cria?"), CRIA_OK);
    ASSERT_EQ(each->say("Tell me more."), CRIA_OK);
  }
  keep(&chat, 3);
  ASSERT_EQ(answer(&chat, nullptr, 0.0f, kAnswerTokens).status, CRIA_OK);
  expect_same(&chat, &fresh);
}

TEST(ChatEdit, WithoutAQuestionThereIsNothingToAnswer) {
  Chat chat(demo(), kAnswerTokens);
  EXPECT_EQ(answer(&chat, nullptr, 0.0f, 1).status, CRIA_INVALID_ARGUMENT);
  chat.begin("You are a llama.");
  EXPECT_EQ(answer(&chat, nullptr, 0.0f, 1).status, CRIA_INVALID_ARGUMENT);
  ASSERT_EQ(cria_chat_add(chat.get(), CRIA_ASSISTANT, "Hello.", 6), CRIA_OK);
  EXPECT_EQ(answer(&chat, nullptr, 0.0f, 1).status, CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_chat_n_messages(chat.get()), 2u);
  EXPECT_EQ(cria_chat_keep(chat.get(), 3), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_chat_keep(nullptr, 0), CRIA_INVALID_ARGUMENT);
  keep(&chat, 0);
  EXPECT_EQ(cria_chat_n_messages(chat.get()), 0u);
}

TEST(ChatEdit, NothingIsForgottenWhileAnAnswerIsMade) {
  Chat chat(demo(), kAnswerTokens);
  cria_batch_entry entry = {};
  ASSERT_EQ(cria_chat_ask(chat.get(), chat.session().workspace(), "hello", 5, 0, &entry), CRIA_OK);
  EXPECT_EQ(cria_chat_keep(chat.get(), 0), CRIA_INVALID_ARGUMENT);
}

// An answer makes way only when the new one begins.
TEST(ChatEdit, AnAnswerStaysUntilTheNewOneBegins) {
  for (const bool is_read : {false, true}) {
    Chat fresh(demo(), kAnswerTokens);
    Chat chat(demo(), kAnswerTokens);
    for (Chat* each : {&fresh, &chat}) {
      ASSERT_EQ(each->say("What is a cria?"), CRIA_OK);
      ASSERT_EQ(each->say("Tell me more."), CRIA_OK);
    }
    const std::string before = chat.text();
    cria_batch_entry entry = {};
    cria_workspace* const workspace = chat.session().workspace();
    ASSERT_EQ(cria_chat_ask(chat.get(), workspace, nullptr, 0, 0, &entry), CRIA_OK);
    if (is_read) {
      ASSERT_EQ(cria_step(workspace, &entry, 1), CRIA_OK);
    }
    cria_chat_abandon(chat.get());
    EXPECT_EQ(chat.text(), before);
    ASSERT_EQ(chat.say("Who are you?"), CRIA_OK);
    ASSERT_EQ(fresh.say("Who are you?"), CRIA_OK);
    EXPECT_EQ(chat.text(), fresh.text());
  }
}

// What left does not come back; what is kept is the conversation all the same.
TEST(ChatEdit, BehindAFullContextTheTokensAreThoseOfTheMessagesLeft) {
  for (const uint8_t exact : {uint8_t{0}, uint8_t{1}}) {
    Chat chat(demo(), 24, 160,
              {.max_messages = 0, .max_text_bytes = 0, .exact_context = exact, .reserved = {}});
    chat.begin("You are cria.");
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(chat.say("What is " + std::to_string(i) + " + 3?"), CRIA_OK) << i;
      const std::string first = chat.answer();
      if (i % 3 == 0) {
        const Asked again = answer(&chat, nullptr, 0.0f, 24);
        ASSERT_EQ(again.status, CRIA_OK) << i;
      }
      if (i % 4 == 1) keep(&chat, cria_chat_n_messages(chat.get()) - 2);
      std::vector<cria_message> all = chat.messages();
      if (all.size() < 2) continue;
      const bool ends_with_answer = i % 4 != 1;
      if (ends_with_answer) all.pop_back();
      std::vector<uint32_t> want = chat.encoded_afresh(all, ends_with_answer ? 1 : 0);
      std::vector<uint32_t> held = chat.tokens();
      // Where some left for what was taken back the others are read with the next question.
      ASSERT_TRUE(held.size() >= want.size() || !ends_with_answer) << i;
      want.resize(std::min(held.size(), want.size()));
      held.resize(want.size());
      EXPECT_EQ(held, want) << i;
    }
    EXPECT_GT(cria_chat_n_dropped(chat.get()), 5U);
  }
}

// With exact_context what is left is read again, as often as one answer makes room.
TEST(ChatEdit, AnAnswerThatMakesRoomSeveralTimesKeepsAllItsTokens) {
  constexpr uint32_t kFirstSpecial = 2040;  // no end token of the demo is below
  std::vector<cria_logit_bias> no_end;
  for (uint32_t token = kFirstSpecial; token < 2048; ++token) no_end.push_back({token, -100.0f});
  for (const uint8_t exact : {uint8_t{0}, uint8_t{1}}) {
    Chat chat(demo(), 6, 512,
              {.max_messages = 0, .max_text_bytes = 0, .exact_context = exact, .reserved = {}});
    for (int i = 0; i < 30; ++i) ASSERT_EQ(chat.say("hello"), CRIA_OK);
    cria_batch_entry entry = {};
    cria_workspace* const workspace = chat.session().workspace();
    ASSERT_EQ(cria_chat_ask(chat.get(), workspace, "hello", 5, 0, &entry), CRIA_OK);
    cria_sampling sampling = {};
    sampling.biases = no_end.data();
    sampling.n_biases = no_end.size();
    std::vector<uint32_t> drawn;
    size_t n_times = 0;
    for (cria_chat_piece piece = {}; piece.is_last == 0;) {
      ASSERT_EQ(cria_step(workspace, &entry, 1), CRIA_OK);
      const uint64_t n_dropped = cria_chat_n_dropped(chat.get());
      ASSERT_EQ(cria_chat_next(chat.get(), workspace, &sampling, &piece, &entry), CRIA_OK);
      if (piece.token != CRIA_NO_TOKEN) drawn.push_back(piece.token);
      n_times += cria_chat_n_dropped(chat.get()) > n_dropped ? 1 : 0;
    }
    EXPECT_GE(n_times, exact != 0 ? 2u : 1u);
    std::vector<cria_message> all = chat.messages();
    all.pop_back();
    std::vector<uint32_t> want = chat.encoded_afresh(all, 1);
    want.insert(want.end(), drawn.begin(), drawn.end());
    const std::vector<uint32_t> held = chat.tokens();
    ASSERT_GE(want.size(), held.size());
    want.resize(held.size());
    EXPECT_EQ(held, want);
  }
}

}  // namespace
}  // namespace cria
