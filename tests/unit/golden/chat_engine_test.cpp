// The conversation that cria chat keeps, over model files made for the purpose.
#include "platforms/hosted/chat_engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/golden/tiny_chat_model.h"

namespace cria::hosted {
namespace {

using test::Bytes;
using test::tiny_model;
using test::without_byte;
using test::without_template_text;

constexpr const char* kNoBreakSpace = "\xC2\xA0";

// An engine over these bytes, which answers with the likeliest tokens.
class Chat {
 public:
  Chat(const Bytes& file, uint32_t max_tokens)
      : path_(written(file)),
        model_(options(path_), {.max_text_bytes = chat_text_bytes(512)}),
        engine_(model_, {}, max_tokens),
        out_(open("/dev/null", O_WRONLY | O_CLOEXEC)) {
    engine_.reset("");
  }
  ~Chat() { std::filesystem::remove(path_); }
  Chat(const Chat&) = delete;
  Chat& operator=(const Chat&) = delete;

  ChatAnswer::Result say(std::string_view text) { return engine_.answer(text, &out_).result; }
  ChatEngine& engine() { return engine_; }
  const ModelSession& model() const { return model_; }

 private:
  static std::string written(const Bytes& file) {
    const auto path = test::temporary_folder() / "chat.cria";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
    return path.string();
  }
  static CommonOptions options(const std::string& path) {
    CommonOptions options;
    options.model_path = path;
    options.n_threads = 1;
    options.backend = CRIA_BACKEND_EXACT;
    return options;
  }

  std::string path_;
  ModelSession model_;
  ChatEngine engine_;
  TextStream out_;
};

// What was fed and said, without the state's bytes.
bool same_conversation(const ChatRecord& a, const ChatRecord& b) {
  return a.text == b.text && a.fed == b.fed && a.pending == b.pending &&
         a.messages.size() == b.messages.size();
}

using Result = ChatAnswer::Result;

TEST(ChatEngine, AMessageWithoutTokensIsNotSaid) {
  Chat chat(without_byte(without_template_text(tiny_model(), format::kChatTrim), '!'), 4);
  // The first message of a conversation, one that follows an answer, one behind /reset.
  for (int round = 0; round < 3; ++round) {
    if (round != 1) chat.engine().reset("");
    const ChatRecord before = chat.engine().save();
    for (const char* text : {"!", kNoBreakSpace, "", "!!!!"}) {
      EXPECT_EQ(chat.say(text), Result::kNoTokens) << round << " '" << text << "'";
    }
    EXPECT_TRUE(same_conversation(before, chat.engine().save())) << round;
    EXPECT_EQ(chat.say("hello"), Result::kAnswered) << round;
    EXPECT_EQ(chat.engine().n_messages(), round == 1 ? 4U : 2U);
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

// The conversation encoded at once, from its texts.
std::vector<uint32_t> encoded_afresh(const Chat& chat, const ChatRecord& record) {
  std::vector<cria_message> messages;
  const char* text = record.text.data();
  for (const Conversation::Message& message : record.messages) {
    messages.push_back({message.role, text, message.n_bytes});
    text += message.n_bytes;
  }
  std::vector<uint32_t> tokens(1 << 12);
  size_t n_tokens = 0;
  EXPECT_EQ(cria_encode_chat(chat.model().workspace(), messages.data(), messages.size(), 0, 0,
                             tokens.data(), tokens.size(), &n_tokens),
            CRIA_OK);
  tokens.resize(n_tokens);
  return tokens;
}

std::vector<uint32_t> kept_tokens(const ChatRecord& record) {
  std::vector<uint32_t> tokens = record.fed;
  tokens.insert(tokens.end(), record.pending.begin(), record.pending.end());
  return tokens;
}

// What is in the KV cache, and comes next, is what the whole conversation gives when it is encoded
// afresh, wherever the checkpoint forgot to say that a token ends answers or is special.
TEST(ChatEngine, KeepsTheTokensOfAFreshEncoding) {
  constexpr uint32_t kEndOfTurn = 2046;
  const auto as_it_is = [](nlohmann::json*, nlohmann::json*) {};
  const auto without_end_token = [](nlohmann::json*, nlohmann::json* config) {
    (*config)["eos_token_id"] = 2043;
  };
  const auto without_flags = [](nlohmann::json* tokenizer, nlohmann::json*) {
    for (nlohmann::json& token : (*tokenizer)["added_tokens"]) token["special"] = false;
  };
  const Bytes files[] = {changed_demo(as_it_is), changed_demo(without_end_token),
                         changed_demo(without_flags)};
  std::string first_text;
  for (const Bytes& file : files) {
    Chat chat(file, 60);
    for (const char* text : {"What is a cria?", "What is <|eot_id|> 7 + 8?", "Tell me more."}) {
      ASSERT_EQ(chat.say(text), Result::kAnswered) << text;
    }
    const ChatRecord record = chat.engine().save();
    const std::vector<uint32_t> kept = kept_tokens(record);
    EXPECT_EQ(kept, encoded_afresh(chat, record));
    EXPECT_EQ(std::count(kept.begin(), kept.end(), kEndOfTurn), 6);
    if (first_text.empty()) first_text = record.text;
    EXPECT_EQ(record.text, first_text);
  }
}

// An answer cut short gets its end token all the same.
TEST(ChatEngine, ClosesAnAnswerThatWasCut) {
  Chat chat(changed_demo([](nlohmann::json*, nlohmann::json*) {}), 3);
  for (const char* text : {"Tell me a story.", "Tell me more."}) {
    ASSERT_EQ(chat.say(text), Result::kAnswered);
    const ChatRecord record = chat.engine().save();
    EXPECT_EQ(kept_tokens(record), encoded_afresh(chat, record));
  }
}

}  // namespace
}  // namespace cria::hosted
