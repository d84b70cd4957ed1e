// cria_chat: what is in the context is what the messages make, whatever happens to them.
#include <cria_chat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/isa_list.h"
#include "tests/support/test_session.h"
#include "tests/system/tiny_chat_model.h"

namespace cria {
namespace {

using test::Bytes;
using test::MemorySource;
using test::TestSession;
using test::tiny_model;
using test::without_byte;
using test::without_template_text;

constexpr const char* kNoBreakSpace = "\xC2\xA0";

cria_config config_with(uint32_t context) {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  config.context = context;
  config.max_text_bytes = 1 << 14;
  config.isa_mask = test::runnable_isas().back().mask;
  return config;
}

// A chat over these bytes, which answers with the likeliest tokens.
class Chat {
 public:
  Chat(const Bytes& file, uint32_t max_tokens, uint32_t context = 0,
       const cria_chat_config& config = {})
      : source_(file), session_(source_, config_with(context)), max_tokens_(max_tokens) {
    size_t n_bytes = 0;
    EXPECT_EQ(cria_chat_required(session_.session(), &config, &n_bytes), CRIA_OK);
    memory_ = std::make_unique<test::AlignedMemory>(n_bytes);
    EXPECT_EQ(cria_chat_make(memory_->data(), n_bytes - 1, session_.workspace(), session_.session(),
                             &config, &chat_),
              CRIA_MEMORY_TOO_SMALL);
    EXPECT_EQ(cria_chat_make(memory_->data(), n_bytes, session_.workspace(), session_.session(),
                             &config, &chat_),
              CRIA_OK);
  }

  cria_status say(std::string_view text) {
    answer_.clear();
    cria_chat_options options = {};
    options.max_tokens = max_tokens_;
    options.context = &answer_;
    options.on_text = [](void* context, uint32_t /*token*/, const char* piece, size_t n_bytes) {
      static_cast<std::string*>(context)->append(piece, n_bytes);
      return 0;
    };
    return cria_chat_answer(chat_, session_.workspace(), text.data(), text.size(), &options,
                            &result_);
  }
  void begin(std::string_view system) {
    EXPECT_EQ(cria_chat_begin(chat_, system.data(), system.size()), CRIA_OK);
  }
  std::vector<uint8_t> saved() const {
    std::vector<uint8_t> bytes(cria_chat_save_size(chat_));
    EXPECT_EQ(cria_chat_save(chat_, bytes.data(), bytes.size()), CRIA_OK);
    return bytes;
  }
  std::vector<cria_message> messages() const {
    std::vector<cria_message> all;
    for (size_t i = 0; i < cria_chat_n_messages(chat_); ++i) {
      all.push_back(cria_chat_message(chat_, i));
    }
    return all;
  }
  std::string text() const {
    std::string all;
    for (const cria_message& m : messages()) all.append(m.text, m.n_bytes);
    return all;
  }
  // Tokens of the context.
  std::vector<uint32_t> tokens() {
    const uint32_t* first = cria_tokens(session_.session());
    return {first, first + cria_position(session_.session())};
  }
  // The conversation encoded at once, from its texts, and the next turn opened.
  std::vector<uint32_t> encoded_afresh(const std::vector<cria_message>& all, int open_turn) {
    std::vector<uint32_t> tokens(1 << 14);
    size_t n_tokens = 0;
    EXPECT_EQ(cria_encode_chat(session_.workspace(), all.data(), all.size(), 0, open_turn,
                               tokens.data(), tokens.size(), &n_tokens),
              CRIA_OK);
    tokens.resize(n_tokens);
    return tokens;
  }
  cria_chat* get() { return chat_; }
  TestSession& session() { return session_; }
  const cria_chat_result& result() const { return result_; }
  const std::string& answer() const { return answer_; }

 private:
  MemorySource source_;
  TestSession session_;
  uint32_t max_tokens_;
  std::unique_ptr<test::AlignedMemory> memory_;
  cria_chat* chat_ = nullptr;
  cria_chat_result result_ = {};
  std::string answer_;
};

TEST(Chat, AMessageWithoutTokensIsNotSaid) {
  Chat chat(without_byte(without_template_text(tiny_model(), format::kChatTrim), '!'), 4);
  // The first message of a conversation, one that follows an answer, one behind a new beginning.
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

}  // namespace
}  // namespace cria
