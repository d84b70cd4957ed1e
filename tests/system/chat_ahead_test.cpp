// Reading ahead: what is read while the next question is not yet there changes no bit of a
// conversation.
#include <cria_chat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/support/long_under_asan.h"
#include "tests/support/model_files.h"
#include "tests/system/chat_driver.h"
#include "tests/system/tiny_chat_model.h"

namespace cria {
namespace {

using test::Bytes;
using test::Chat;

constexpr uint32_t kAnswerTokens = 24;

// The demo's own template, but for the system text, which stands in a question: where says which.
std::string with_system_in_question(const std::string& where) {
  return "{{- bos_token }}{%- set system = '' %}{%- if messages[0]['role'] == 'system' %}"
         "{%- set system = messages[0]['content'] + '\\n\\n' %}{%- set messages = messages[1:] %}"
         "{%- endif %}{%- for message in messages %}"
         "{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
         "{{- raise_exception('Roles must take turns') }}{%- endif %}"
         "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
         "{%- if " +
         where +
         " %}{{- system }}{%- endif %}"
         "{{- message['content'] | trim + '<|eot_id|>' }}{%- endfor %}"
         "{%- if add_generation_prompt %}"
         "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}";
}

const Bytes& demo(const std::string& chat_template = "") {
  static std::map<std::string, Bytes> models;
  Bytes& model = models[chat_template];
  if (model.empty()) {
    model = test::convert_folder(test::demo_folder(), {.weights = format::NumberFormat::kInt4,
                                                       .group_size = 32,
                                                       .compression = format::Compression::kStored,
                                                       .tokenizer = true,
                                                       .chat_template = chat_template});
  }
  return model;
}

// Everything that can be read ahead, or the first n_parts parts of it; how many tokens those were.
uint32_t read_ahead(Chat* chat, uint32_t part, int n_parts = 1 << 20,
                    uint32_t max_tokens = kAnswerTokens) {
  uint32_t total = 0;
  for (int i = 0; i < n_parts; ++i) {
    uint32_t n_read = 0;
    EXPECT_EQ(
        cria_chat_read_ahead(chat->get(), chat->session().workspace(), max_tokens, part, &n_read),
        CRIA_OK);
    if (n_read == 0) break;
    total += n_read;
  }
  return total;
}

// The saved bytes hold messages, tokens, KV cache and the random state.
void expect_same(Chat* one, Chat* other) {
  EXPECT_EQ(one->text(), other->text());
  EXPECT_EQ(one->tokens(), other->tokens());
  EXPECT_TRUE(one->saved() == other->saved());
}

struct Kind {
  const char* name;
  std::string chat_template;  // Jinja; empty: the demo's own
  uint8_t exact_context;
  const char* system;
};
const Kind kKinds[] = {
    {"dropping", "", 0, "You are cria."},
    {"without a system text", "", 0, ""},
    {"reading again", "", 1, "You are cria."},
    {"reading again without a system text", "", 1, ""},
    {"system text in the first question", with_system_in_question("loop.first"), 0,
     "You are cria."},
    {"system text in the last question", with_system_in_question("loop.last"), 0, "You are cria."},
};

Chat make(const Kind& kind, const Bytes& file, uint32_t context) {
  return {file,
          kAnswerTokens,
          context,
          {.max_messages = 0,
           .max_text_bytes = 0,
           .exact_context = kind.exact_context,
           .reserved = {}}};
}

std::string question(int i) {
  std::string text = "What is ";
  text += std::to_string(i);
  text += " + 3?";
  if (i % 5 == 3) text += " And then, when all that has been said and done, what is it then?";
  return text;
}

TEST(ChatAhead, ChangesNoBitOfAConversation) {
  CRIA_SKIP_UNDER_ASAN();
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const Bytes& file = demo(kind.chat_template);
    for (const uint32_t part : {1u, 7u, 1000u}) {
      Chat plain = make(kind, file, 160);
      Chat ahead = make(kind, file, 160);
      for (Chat* chat : {&plain, &ahead}) chat->begin(kind.system);
      uint32_t n_ahead = 0;
      for (int i = 0; i < 30; ++i) {
        SCOPED_TRACE(i);
        // Now and then the question comes before all is read.
        n_ahead += read_ahead(&ahead, part, i % 4 == 2 ? 3 : 1 << 20);
        for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say(question(i)), CRIA_OK);
        EXPECT_EQ(ahead.answer(), plain.answer());
        EXPECT_EQ(ahead.result().end, plain.result().end);
        EXPECT_EQ(ahead.result().n_dropped, plain.result().n_dropped);
        expect_same(&ahead, &plain);
        if (::testing::Test::HasFailure()) return;
      }
      EXPECT_GT(cria_chat_n_dropped(plain.get()), 5u);
      EXPECT_GT(n_ahead, 15u);
    }
  }
}

// How much has to leave is a matter of single tokens, of which some were read ahead.
TEST(ChatAhead, TheSameExchangesLeaveContextsOfEverySize) {
  CRIA_SKIP_UNDER_ASAN();
  constexpr uint32_t kLeast = 120;
  constexpr uint32_t kSizes = 24;
  for (uint32_t context = kLeast; context < kLeast + kSizes; ++context) {
    SCOPED_TRACE(context);
    Chat plain = make(kKinds[0], demo(), context);
    Chat ahead = make(kKinds[0], demo(), context);
    for (Chat* chat : {&plain, &ahead}) chat->begin(kKinds[0].system);
    for (int i = 0; i < 12; ++i) {
      SCOPED_TRACE(i);
      read_ahead(&ahead, 1000);
      for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say(question(i)), CRIA_OK);
      ASSERT_EQ(ahead.result().n_dropped, plain.result().n_dropped);
    }
    expect_same(&ahead, &plain);
  }
}

TEST(ChatAhead, ChangesNoBitOfWhatIsTakenBackOrSaidAgain) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const Bytes& file = demo(kind.chat_template);
    Chat plain = make(kind, file, 400);
    Chat ahead = make(kind, file, 400);
    for (Chat* chat : {&plain, &ahead}) chat->begin(kind.system);
    for (int i = 0; i < 12; ++i) {
      SCOPED_TRACE(i);
      read_ahead(&ahead, 7);
      for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say(question(i)), CRIA_OK);
      read_ahead(&ahead, 7);
      for (Chat* chat : {&plain, &ahead}) {
        cria_chat_options options = {};
        options.max_tokens = kAnswerTokens / 2;
        cria_chat_result result;
        if (i % 3 == 1) {  // again
          ASSERT_EQ(cria_chat_answer(chat->get(), chat->session().workspace(), nullptr, 0, &options,
                                     &result),
                    CRIA_OK);
        }
        if (i % 3 == 2) {
          const size_t n = cria_chat_n_messages(chat->get());
          ASSERT_EQ(cria_chat_keep(chat->get(), n - 2), CRIA_OK);
        }
      }
      EXPECT_EQ(ahead.text(), plain.text());
    }
    for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say("Who are you?"), CRIA_OK);
    expect_same(&ahead, &plain);
  }
}

TEST(ChatAhead, WhatWasReadAheadIsNotReadWithTheQuestion) {
  Chat plain(demo(), kAnswerTokens);
  Chat ahead(demo(), kAnswerTokens);
  for (Chat* chat : {&plain, &ahead}) chat->begin("You are a llama that says little.");
  for (int i = 0; i < 3; ++i) {
    const uint32_t n_ahead = read_ahead(&ahead, 1000);
    EXPECT_GT(n_ahead, 0u);
    EXPECT_EQ(read_ahead(&ahead, 1000), 0u);
    for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say(question(i)), CRIA_OK);
    EXPECT_EQ(ahead.result().n_read + n_ahead, plain.result().n_read);
    EXPECT_EQ(cria_chat_n_read(ahead.get()), cria_chat_n_read(plain.get()));
  }
}

// With exact_context: where the answer filled the context, and not the question.
TEST(ChatAhead, AFullContextIsReadAgainAhead) {
  constexpr uint32_t kLongAnswer = 60;
  const cria_chat_config config = {
      .max_messages = 0, .max_text_bytes = 0, .exact_context = 1, .reserved = {}};
  Chat plain(demo(), kLongAnswer, 400, config);
  Chat ahead(demo(), kLongAnswer, 400, config);
  for (Chat* chat : {&plain, &ahead}) chat->begin("You are cria.");
  int n_long = 0;
  int n_short = 0;
  uint32_t n_plain = 0;
  uint32_t n_ahead = 0;
  for (int i = 0; i < 40; ++i) {
    read_ahead(&ahead, 32, 1 << 20, kLongAnswer);
    for (Chat* chat : {&plain, &ahead}) {
      ASSERT_EQ(chat->say(i % 2 == 0 ? "Tell me a story." : "More."), CRIA_OK);
    }
    n_plain += plain.result().n_read;
    n_ahead += ahead.result().n_read;
    constexpr uint32_t kAgain = 40;  // more than these questions have
    n_long += plain.result().n_read > kAgain ? 1 : 0;
    n_short += plain.result().n_read > kAgain && ahead.result().n_read < kAgain ? 1 : 0;
  }
  expect_same(&ahead, &plain);
  EXPECT_GE(n_long, 3);
  EXPECT_GE(n_short, n_long / 2);
  EXPECT_GT(n_plain, 3 * n_ahead / 2);
}

TEST(ChatAhead, KeepingAllMessagesTakesItBack) {
  Chat plain(demo(), kAnswerTokens);
  Chat ahead(demo(), kAnswerTokens);
  for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say("Who are you?"), CRIA_OK);
  const std::vector<uint32_t> before = ahead.tokens();
  EXPECT_GT(read_ahead(&ahead, 1000), 0u);
  EXPECT_GT(ahead.tokens().size(), before.size());
  ASSERT_EQ(cria_chat_keep(ahead.get(), 2), CRIA_OK);
  EXPECT_EQ(ahead.tokens(), before);
  for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say("Tell me more."), CRIA_OK);
  expect_same(&ahead, &plain);
}

TEST(ChatAhead, AConversationSavedBehindItGoesOn) {
  Chat plain(demo(), kAnswerTokens);
  Chat ahead(demo(), kAnswerTokens);
  for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say("Who are you?"), CRIA_OK);
  EXPECT_GT(read_ahead(&ahead, 1000), 0u);
  const std::vector<uint8_t> bytes = ahead.saved();
  Chat other(demo(), kAnswerTokens);
  ASSERT_EQ(cria_chat_load(other.get(), bytes.data(), bytes.size()), CRIA_OK);
  for (Chat* chat : {&plain, &other}) ASSERT_EQ(chat->say("Tell me more."), CRIA_OK);
  expect_same(&other, &plain);
}

// As `/save` does it: whatever has to be read again is, what stands after the last answer is not.
std::vector<uint8_t> saved_as_it_is(Chat* chat) {
  read_ahead(chat, 1000);
  EXPECT_EQ(cria_chat_keep(chat->get(), cria_chat_n_messages(chat->get())), CRIA_OK);
  return chat->saved();
}

TEST(ChatAhead, OneFileIsSavedHoweverFarItWasRead) {
  CRIA_SKIP_UNDER_ASAN();
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const Bytes& file = demo(kind.chat_template);
    for (const int n_undone : {0, 1, 3}) {
      SCOPED_TRACE(n_undone);
      for (const int n_parts : {1, 2, 100}) {
        SCOPED_TRACE(n_parts);
        for (int n_asked = n_undone; n_asked < 9; n_asked += 2) {
          SCOPED_TRACE(n_asked);
          Chat plain = make(kind, file, 160);
          Chat ahead = make(kind, file, 160);
          for (Chat* chat : {&plain, &ahead}) chat->begin(kind.system);
          for (int i = 0; i < n_asked; ++i) {
            for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say(question(i)), CRIA_OK);
          }
          const auto idle = [&] { read_ahead(&ahead, 16, n_parts); };
          idle();
          for (int i = 0; i < n_undone; ++i) {
            for (Chat* chat : {&plain, &ahead}) {
              const size_t n = cria_chat_n_messages(chat->get());
              ASSERT_EQ(cria_chat_keep(chat->get(), n - std::min<size_t>(n, 2)), CRIA_OK);
            }
            idle();
          }
          const std::vector<uint8_t> saved = saved_as_it_is(&ahead);
          const std::vector<uint8_t> wanted = saved_as_it_is(&plain);
          EXPECT_EQ(ahead.tokens(), plain.tokens());
          ASSERT_TRUE(saved == wanted);
        }
      }
    }
  }
}

int looks_left = 0;
int stop_at_last_look(void*, uint64_t, uint64_t) {
  return looks_left > 0 && --looks_left == 0 ? 1 : 0;
}

// Whichever look of the hook stops it.
TEST(ChatAhead, StoppedItChangesNothing) {
  Chat plain(demo(), kAnswerTokens);
  for (int look = 1; look < 12; look += 2) {
    SCOPED_TRACE(look);
    Chat ahead(demo(), kAnswerTokens, 0, {}, &stop_at_last_look);
    looks_left = 0;
    plain.begin("You are a llama that says little.");
    ahead.begin("You are a llama that says little.");
    for (int i = 0; i < 3; ++i) {
      uint32_t n_read = 0;
      looks_left = look;
      const cria_status status = cria_chat_read_ahead(ahead.get(), ahead.session().workspace(),
                                                      kAnswerTokens, 1000, &n_read);
      EXPECT_EQ(status, looks_left == 0 ? CRIA_CANCELLED : CRIA_OK);
      EXPECT_EQ(n_read == 0, looks_left == 0);
      looks_left = 0;
      for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say(question(i)), CRIA_OK);
      expect_same(&ahead, &plain);
    }
  }
}

// What its reading had replaced is read with the next question, or not at all.
TEST(ChatAhead, BehindAQuestionThatWasTakenBackItChangesNoBit) {
  const Kind& kind = kKinds[0];
  uint64_t n_dropped = 0;
  for (const int n_asked : {4, 5, 6}) {
    for (const uint32_t guessed : {1u, kAnswerTokens, 100u}) {
      for (const int n_words : {1, 30}) {
        SCOPED_TRACE(std::to_string(n_asked) + " asked, " + std::to_string(guessed) + " guessed, " +
                     std::to_string(n_words) + " words");
        Chat plain = make(kind, demo(), 160);
        Chat ahead = make(kind, demo(), 160);
        for (Chat* chat : {&plain, &ahead}) {
          chat->begin(kind.system);
          for (int i = 0; i < n_asked; ++i) ASSERT_EQ(chat->say(question(i)), CRIA_OK);
          cria_batch_entry entry;
          ASSERT_EQ(cria_chat_ask(chat->get(), chat->session().workspace(), nullptr, 0, 4, &entry),
                    CRIA_OK);
          cria_chat_abandon(chat->get());
        }
        read_ahead(&ahead, 1000, 1 << 20, guessed);
        std::string words;
        for (int i = 0; i < n_words; ++i) words += " llama";
        for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say(words), CRIA_OK);
        expect_same(&ahead, &plain);
        n_dropped += plain.result().n_dropped;
      }
    }
  }
  EXPECT_GT(n_dropped, 0u);
}

TEST(ChatAhead, ThereAreTimesWhenNothingCanBeReadAhead) {
  Chat plain(demo(), kAnswerTokens);
  Chat ahead(demo(), kAnswerTokens);
  for (Chat* chat : {&plain, &ahead}) {
    chat->begin("You are cria.");
    ASSERT_EQ(chat->say("Who are you?"), CRIA_OK);
  }
  const std::vector<uint8_t> before = ahead.saved();
  uint32_t n_read = 7;
  EXPECT_EQ(cria_chat_read_ahead(nullptr, ahead.session().workspace(), 0, 32, &n_read),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_chat_read_ahead(ahead.get(), nullptr, 0, 32, &n_read), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_chat_read_ahead(ahead.get(), ahead.session().workspace(), 0, 0, &n_read),
            CRIA_INVALID_ARGUMENT);
  EXPECT_TRUE(ahead.saved() == before);
  // While an answer is made.
  cria_batch_entry entry;
  ASSERT_EQ(cria_chat_ask(ahead.get(), ahead.session().workspace(), "And you?", 8, 4, &entry),
            CRIA_OK);
  EXPECT_EQ(cria_chat_read_ahead(ahead.get(), ahead.session().workspace(), 0, 32, &n_read),
            CRIA_INVALID_ARGUMENT);
  cria_chat_abandon(ahead.get());
  for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say("Tell me more."), CRIA_OK);
  expect_same(&ahead, &plain);
}

// Taken back, a question leaves what was read ahead where it was.
TEST(ChatAhead, AQuestionTakenBackAndAnotherOne) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const Bytes& file = demo(kind.chat_template);
    Chat plain = make(kind, file, 160);
    Chat ahead = make(kind, file, 160);
    for (Chat* chat : {&plain, &ahead}) chat->begin(kind.system);
    for (int i = 0; i < 20; ++i) {
      read_ahead(&ahead, 32);
      for (Chat* chat : {&plain, &ahead}) {
        cria_batch_entry entry;
        ASSERT_EQ(cria_chat_ask(chat->get(), chat->session().workspace(), "And you?", 8, 4, &entry),
                  CRIA_OK);
        cria_chat_abandon(chat->get());
      }
      if (i % 2 == 0) read_ahead(&ahead, 32);
      for (Chat* chat : {&plain, &ahead}) ASSERT_EQ(chat->say(question(i)), CRIA_OK);
      expect_same(&ahead, &plain);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace cria
