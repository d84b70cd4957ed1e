// A chat as the cria program has it, for targets: a model file on disk, a session, an engine.
#pragma once

#include <string>
#include <string_view>

#include "platforms/hosted/chat_engine.h"
#include "platforms/hosted/chat_file.h"
#include "platforms/hosted/model_session.h"
#include "platforms/hosted/text_stream.h"

namespace cria::fuzz {

class ChatTrial {
 public:
  // Throws ProgramError, as the program would tell it.
  explicit ChatTrial(const hosted::CommonOptions& options);
  ~ChatTrial();
  ChatTrial(const ChatTrial&) = delete;
  ChatTrial& operator=(const ChatTrial&) = delete;

  [[nodiscard]] hosted::ChatEngine* engine() { return &engine_; }
  // Says a message; the answer, of a few tokens, goes nowhere.
  void say(std::string_view message);
  // The bytes of a chat file, and what one may hold.
  [[nodiscard]] std::string saved() const;
  [[nodiscard]] hosted::ChatLimits limits() const { return hosted::chat_limits(model_); }

 private:
  hosted::ModelSession model_;
  hosted::ChatEngine engine_;
  int nowhere_;
  hosted::TextStream out_;
};

// Options for a model, with the exact backend and one thread.
[[nodiscard]] hosted::CommonOptions chat_options(const std::string& model_path);

}  // namespace cria::fuzz
