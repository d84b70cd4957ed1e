// The conversation that cria chat keeps, over model files made for the purpose.
#include "platforms/hosted/chat_engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/golden/tiny_chat_model.h"

namespace cria::hosted {
namespace {

using test::Bytes;
using test::tiny_model;
using test::without_byte;
using test::without_template_text;

constexpr const char* kNoBreakSpace = "\xC2\xA0";

// An engine over these bytes, which answers with at most four tokens.
class Chat {
 public:
  explicit Chat(const Bytes& file)
      : path_(written(file)),
        model_(options(path_), {.max_text_bytes = chat_text_bytes(64)}),
        engine_(model_, {}, 4),
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
  Chat chat(without_byte(without_template_text(tiny_model(), format::kChatTrim), '!'));
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

}  // namespace
}  // namespace cria::hosted
