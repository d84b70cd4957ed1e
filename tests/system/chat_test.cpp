// cria_chat: what is in the context is what the messages make, whatever happens to them.
#include <cria_chat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/sealed.h"
#include "tests/support/test_session.h"
#include "tests/system/chat_driver.h"
#include "tests/system/tiny_chat_model.h"

namespace cria {
namespace {

using test::Bytes;
using test::Chat;
using test::tiny_model;
using test::without_byte;
using test::without_template_text;

constexpr const char* kNoBreakSpace = "\xC2\xA0";

TEST(Chat, AMessageWithoutTokensIsNotSaid) {
  Chat chat(without_byte(without_template_text(tiny_model(), true), '!'), 4);
  // The first message of a conversation, one that follows an answer, one after a new beginning.
  for (int round = 0; round < 3; ++round) {
    if (round != 1) chat.begin("");
    const std::string before = chat.text();
    const uint32_t position = cria_position(chat.session().session());
    for (const char* text : {"!", kNoBreakSpace, "", "!!!!"}) {
      EXPECT_EQ(chat.say(text), CRIA_NOTHING_TO_SAMPLE) << round << " '" << text << "'";
    }
    EXPECT_EQ(chat.text(), before) << round;
    EXPECT_EQ(cria_position(chat.session().session()), position) << round;
    EXPECT_EQ(chat.say("hello"), CRIA_OK) << round;
    EXPECT_EQ(cria_chat_n_messages(chat.get()), round == 1 ? 4U : 2U);
  }
}

// The demo with changes to tokenizer.json and generation_config.json.
template <typename Change>
Bytes changed_demo(const Change& change) {
  namespace fs = std::filesystem;
  const fs::path folder = test::temporary_folder() / "changed";
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const char* name : {"config.json", "tokenizer_config.json", "model.safetensors"}) {
    fs::create_symlink(test::demo_folder() / name, folder / name);
  }
  const auto read = [](const char* name) {
    std::ifstream file(test::demo_folder() / name);
    return nlohmann::json::parse(file);
  };
  nlohmann::json tokenizer = read("tokenizer.json");
  nlohmann::json config = read("generation_config.json");
  change(&tokenizer, &config);
  std::ofstream(folder / "tokenizer.json") << tokenizer;
  std::ofstream(folder / "generation_config.json") << config;
  return test::convert_folder(
      folder, {format::NumberFormat::kInt4, 32, format::Compression::kStored, true});
}

Bytes demo() {
  return changed_demo([](nlohmann::json*, nlohmann::json*) {});
}

// What the context holds before the newest answer is what the messages before it give when they are
// encoded afresh.
void expect_fresh(Chat* chat) {
  std::vector<cria_message> all = chat->messages();
  ASSERT_FALSE(all.empty());
  all.pop_back();
  const std::vector<uint32_t> want = chat->encoded_afresh(all, 1);
  std::vector<uint32_t> held = chat->tokens();
  ASSERT_GE(held.size(), want.size());
  held.resize(want.size());
  EXPECT_EQ(held, want);
}

// Wherever the checkpoint forgot to say that a token ends answers or is special.
TEST(Chat, KeepsTheTokensOfAFreshEncoding) {
  constexpr uint32_t kEndOfTurn = 2046;
  const auto without_end_token = [](nlohmann::json*, nlohmann::json* config) {
    (*config)["eos_token_id"] = 2043;
  };
  const auto without_flags = [](nlohmann::json* tokenizer, nlohmann::json*) {
    for (nlohmann::json& token : (*tokenizer)["added_tokens"]) token["special"] = false;
  };
  const Bytes files[] = {demo(), changed_demo(without_end_token), changed_demo(without_flags)};
  std::string first_text;
  for (const Bytes& file : files) {
    Chat chat(file, 60);
    for (const char* text : {"What is a cria?", "What is <|eot_id|> 7 + 8?", "Tell me more."}) {
      ASSERT_EQ(chat.say(text), CRIA_OK) << text;
      EXPECT_EQ(chat.result().end, CRIA_CHAT_ANSWERED);
      expect_fresh(&chat);
    }
    const std::vector<uint32_t> held = chat.tokens();
    EXPECT_EQ(std::count(held.begin(), held.end(), kEndOfTurn), 5);
    if (first_text.empty()) first_text = chat.text();
    EXPECT_EQ(chat.text(), first_text);
  }
}

// An answer cut short gets its end token all the same.
TEST(Chat, ClosesAnAnswerThatWasCut) {
  Chat chat(demo(), 3);
  for (const char* text : {"Tell me a story.", "Tell me more.", "And then?"}) {
    ASSERT_EQ(chat.say(text), CRIA_OK);
    EXPECT_EQ(chat.result().end, CRIA_CHAT_LIMIT);
    EXPECT_EQ(chat.result().n_answered, 3U);
    expect_fresh(&chat);
  }
}

// Long conversations: the context is full again and again.
TEST(Chat, DropsTheOldestExchangesAndKeepsTheSystemText) {
  for (const uint8_t exact : {uint8_t{0}, uint8_t{1}}) {
    Chat chat(demo(), 24, 160,
              {.max_messages = 0, .max_text_bytes = 0, .exact_context = exact, .reserved = {}});
    chat.begin("You are cria.");
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(chat.say("What is " + std::to_string(i) + " + 3?"), CRIA_OK) << i;
      // The tokens are those of the messages that are left, whichever way the others left.
      expect_fresh(&chat);
      const cria_message first = chat.messages()[0];
      EXPECT_EQ(std::string(first.text, first.n_bytes), "You are cria.");
    }
    EXPECT_GT(cria_chat_n_dropped(chat.get()), 10U);
    // Dropping reads each token once; reading again reads some several times.
    const uint64_t n_read = cria_chat_n_read(chat.get());
    EXPECT_TRUE(exact != 0 || n_read < 40U * 30) << n_read;
  }
}

TEST(Chat, WithoutASystemTextTheBeginningStays) {
  Chat chat(demo(), 24, 160);
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(chat.say("What is " + std::to_string(i) + " + 3?"), CRIA_OK) << i;
    expect_fresh(&chat);
  }
  EXPECT_GT(cria_chat_n_dropped(chat.get()), 10U);
  // As above: nothing that stays is read again.
  EXPECT_LT(cria_chat_n_read(chat.get()), 30U * 30);
}

TEST(Chat, AnAnswerThatFillsTheContextIsCutAndTheConversationGoesOn) {
  for (const uint8_t exact : {uint8_t{0}, uint8_t{1}}) {
    Chat chat(tiny_model(), 0, 48,
              {.max_messages = 0, .max_text_bytes = 0, .exact_context = exact, .reserved = {}});
    int n_cut = 0;
    for (int i = 0; i < 6; ++i) {
      ASSERT_EQ(chat.say("hello"), CRIA_OK) << i;
      n_cut += chat.result().end == CRIA_CHAT_FULL ? 1 : 0;
    }
    EXPECT_GT(n_cut, 0);  // the tiny model hardly ever says its end token
  }
}

TEST(Chat, AMessageThatIsTooLongChangesNothing) {
  Chat chat(demo(), 8, 64);
  ASSERT_EQ(chat.say("Who are you?"), CRIA_OK);
  const std::string before = chat.text();
  EXPECT_EQ(chat.say(std::string(3000, 'x')), CRIA_CONTEXT_FULL);
  EXPECT_EQ(chat.say(std::string(1 << 20, 'x')), CRIA_TEXT_TOO_LONG);
  EXPECT_EQ(chat.say("Who are you?"), CRIA_OK);
}

TEST(Chat, MemoryForTextMakesRoomToo) {
  Chat chat(demo(), 16, 512,
            {.max_messages = 4, .max_text_bytes = 256, .exact_context = 0, .reserved = {}});
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(chat.say("What is " + std::to_string(i) + " + 3?"), CRIA_OK) << i;
    expect_fresh(&chat);
    EXPECT_LE(cria_chat_n_messages(chat.get()), 4U);
  }
}

TEST(Chat, ASavedConversationGoesOnInAnotherChat) {
  const Bytes file = demo();
  Chat first(file, 40);
  first.begin("You are cria.");
  ASSERT_EQ(first.say("What is the capital of France?"), CRIA_OK);
  const std::vector<uint8_t> saved = first.saved();
  ASSERT_EQ(first.say("And of Italy?"), CRIA_OK);
  Chat second(file, 40, 300);
  ASSERT_EQ(second.say("hello"), CRIA_OK);
  ASSERT_EQ(cria_chat_load(second.get(), saved.data(), saved.size()), CRIA_OK);
  EXPECT_EQ(second.saved(), saved);
  ASSERT_EQ(second.say("And of Italy?"), CRIA_OK);
  EXPECT_EQ(second.answer(), first.answer());
  EXPECT_EQ(second.tokens(), first.tokens());
  for (size_t n = 0; n < saved.size(); n += n < 200 ? 1 : 997) {
    EXPECT_EQ(cria_chat_load(second.get(), saved.data(), n), CRIA_BAD_STATE) << n;
  }
}

// What others keep is read as far as it is not there yet.
TEST(Chat, ReadsOfAConversationThatOthersKeepWhatIsNew) {
  Chat chat(demo(), 40);
  ASSERT_EQ(chat.say("What is the capital of France?"), CRIA_OK);
  const std::string answer = chat.answer();
  const uint64_t n_before = cria_chat_n_read(chat.get());
  chat.begin("");
  const std::string_view question = "What is the capital of France?";
  ASSERT_EQ(cria_chat_add(chat.get(), CRIA_USER, question.data(), question.size()), CRIA_OK);
  ASSERT_EQ(cria_chat_add(chat.get(), CRIA_ASSISTANT, answer.data(), answer.size()), CRIA_OK);
  ASSERT_EQ(chat.say("Who are you?"), CRIA_OK);
  expect_fresh(&chat);
  EXPECT_LT(cria_chat_n_read(chat.get()) - n_before, 20U);
}

TEST(Chat, AQuestionThatCanNeverBeAskedCostsNoExchange) {
  cria_chat_config config = {};
  config.max_text_bytes = 2000;
  Chat chat(demo(), 8, 256, config);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(chat.say("What is a llama?"), CRIA_OK);
  const std::string before = chat.text();
  const std::vector<uint32_t> tokens = chat.tokens();
  // Longer than all memory for text, and longer than the context when all else has left.
  EXPECT_EQ(chat.say(std::string(2001, 'x')), CRIA_TEXT_TOO_LONG);
  EXPECT_EQ(chat.say(std::string(1900, '?')), CRIA_CONTEXT_FULL);
  EXPECT_EQ(chat.text(), before);
  EXPECT_EQ(chat.tokens(), tokens);
  EXPECT_EQ(chat.say("Who are you?"), CRIA_OK);
  EXPECT_EQ(cria_chat_n_messages(chat.get()), 8u);
  expect_fresh(&chat);
}

// A chat that is driven step by step.
class Steps {
 public:
  explicit Steps(Chat* chat) : chat_(chat) {}
  void ask(std::string_view text) {
    ASSERT_EQ(cria_chat_ask(chat_->get(), workspace(), text.data(), text.size(), 0, &entry_),
              CRIA_OK);
  }
  void step() { ASSERT_EQ(cria_step(workspace(), &entry_, 1), CRIA_OK); }
  void next() {
    const cria_sampling greedy = {};
    ASSERT_EQ(cria_chat_next(chat_->get(), workspace(), &greedy, &piece_, &entry_), CRIA_OK);
    ASSERT_EQ(piece_.is_last, 0);
  }

 private:
  cria_workspace* workspace() { return chat_->session().workspace(); }
  Chat* chat_;
  cria_batch_entry entry_ = {};
  cria_chat_piece piece_ = {};
};

// Whether or not the last token that was drawn has been read.
TEST(Chat, AnAnswerMayBeStoppedBetweenAnyTwoCalls) {
  for (const bool is_read : {false, true}) {
    Chat chat(demo(), 8);
    Steps steps(&chat);
    steps.ask("What is a llama?");
    for (int i = 0; i < 4; ++i) {
      steps.step();
      steps.next();
    }
    if (is_read) steps.step();
    cria_chat_stop(chat.get());
    ASSERT_EQ(chat.say("Who are you?"), CRIA_OK);
    expect_fresh(&chat);
  }
}

TEST(Chat, AQuestionMayBeTakenBackBetweenAnyTwoCalls) {
  for (const int n_calls : {0, 1, 2, 3}) {
    Chat chat(demo(), 8);
    ASSERT_EQ(chat.say("What is a llama?"), CRIA_OK);
    const std::string before = chat.text();
    Steps steps(&chat);
    steps.ask("Tell me about the sea");
    for (int i = 0; i < n_calls; ++i) {
      if (i % 2 == 0) steps.step();
      if (i % 2 == 1) steps.next();
    }
    cria_chat_abandon(chat.get());
    EXPECT_EQ(chat.text(), before) << n_calls;
    ASSERT_EQ(chat.say("Who are you?"), CRIA_OK);
    expect_fresh(&chat);
  }
}

TEST(Chat, AMessageThatOthersAddedStaysWhenItsAnswerIsTakenBack) {
  Chat chat(demo(), 8);
  ASSERT_EQ(cria_chat_add(chat.get(), CRIA_USER, "hello", 5), CRIA_OK);
  cria_batch_entry entry = {};
  ASSERT_EQ(cria_chat_ask(chat.get(), chat.session().workspace(), nullptr, 0, 0, &entry), CRIA_OK);
  cria_chat_abandon(chat.get());
  EXPECT_EQ(cria_chat_n_messages(chat.get()), 1u);
  EXPECT_EQ(chat.text(), "hello");
}

// More than fits, none of which the session has: what is left out is never read.
TEST(Chat, ManyMessagesOfOthersBehindAShortConversationMakeRoom) {
  for (const bool with_system : {false, true}) {
    Chat chat(demo(), 8, 256);
    chat.begin(with_system ? "You are a llama." : "");
    for (int i = 0; i < 2; ++i) ASSERT_EQ(chat.say("What is a llama?"), CRIA_OK);
    for (int i = 0; i < 8; ++i) {
      constexpr std::string_view kText =
          "Tell me about the sea and the moon and the stars, please.";
      ASSERT_EQ(cria_chat_add(chat.get(), CRIA_USER, kText.data(), kText.size()), CRIA_OK);
      ASSERT_EQ(cria_chat_add(chat.get(), CRIA_ASSISTANT, kText.data(), kText.size()), CRIA_OK);
    }
    ASSERT_EQ(chat.say("Who are you?"), CRIA_OK);
    expect_fresh(&chat);
    ASSERT_EQ(chat.say("What is a llama?"), CRIA_OK);
    expect_fresh(&chat);
  }
}

struct SavedFront {
  uint64_t magic;
  uint64_t checksum;
  uint32_t n_messages;
  uint32_t n_text;
  uint32_t n_in_context;
  uint32_t n_unread;
  uint32_t thinking;
  uint32_t reserved;
};

// The file of a chat with so many tokens 0 more that come next, before or after those it has.
std::vector<uint8_t> with_more_unread(const std::vector<uint8_t>& saved, uint32_t n_more,
                                      bool is_before) {
  SavedFront front;
  std::memcpy(&front, saved.data(), sizeof front);
  const size_t begin = sizeof front + front.n_messages * 16 + front.n_text;
  const size_t place = is_before ? begin : begin + front.n_unread * 4;
  std::vector<uint8_t> changed = saved;
  changed.insert(changed.begin() + static_cast<ptrdiff_t>(place), n_more * size_t{4}, 0);
  front.n_unread += n_more;
  std::memcpy(changed.data(), &front, sizeof front);
  test::seal(&changed, test::kChatChecksum, begin + front.n_unread * size_t{4});
  return changed;
}

// A chat goes on after any tokens that its context had, but they end as a context does, and there
// are no more of them than positions and what closes an answer that filled them.
TEST(Chat, ASavedConversationWithOtherUnreadTokensIsRefusedOrGoesOn) {
  const Bytes file = demo();
  for (const uint32_t context : {16u, 64u, 0u}) {
    Chat chat(file, 4, context);
    ASSERT_EQ(chat.say("a"), CRIA_OK);
    ASSERT_EQ(chat.result().end, CRIA_CHAT_LIMIT);
    const std::vector<uint8_t> saved = chat.saved();
    SavedFront front;
    std::memcpy(&front, saved.data(), sizeof front);
    ASSERT_GT(front.n_unread, 1u);
    const uint32_t n_left =
        cria_context(chat.session().session()) - static_cast<uint32_t>(chat.tokens().size());
    for (const uint32_t n_more : {1u, 2u, n_left, n_left + 1, n_left + 250, 70000u}) {
      SCOPED_TRACE(std::to_string(context) + " " + std::to_string(n_more));
      Chat other(file, 4, context);
      const std::vector<uint8_t> behind = with_more_unread(saved, n_more, false);
      EXPECT_EQ(cria_chat_load(other.get(), behind.data(), behind.size()), CRIA_BAD_STATE);
      const std::vector<uint8_t> before = with_more_unread(saved, n_more, true);
      EXPECT_EQ(cria_chat_load(other.get(), before.data(), before.size()),
                n_more <= n_left ? CRIA_OK : CRIA_CONTEXT_FULL);
      other.say("b");
      other.say(std::string(300, 'x'));
    }
  }
}

}  // namespace
}  // namespace cria
