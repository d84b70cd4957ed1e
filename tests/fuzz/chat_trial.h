// A chat over a model file on disk, as the cria program opens it, for targets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cria_chat.h>
#include "platforms/hosted/session/model_session.h"
#include "tests/support/test_session.h"

namespace cria::fuzz {

class ChatTrial {
 public:
  // Throws ProgramError, as the program would tell it.
  ChatTrial(const hosted::CommonOptions& options, bool exact_context);

  [[nodiscard]] cria_chat* chat() { return chat_; }
  // Says a message; the answer, of a few tokens, goes nowhere.
  cria_status say(std::string_view message);
  // Answers the newest question once more, where there is one.
  void answer_again();
  // Forgets the newest n messages, or all.
  void take_back(size_t n);
  [[nodiscard]] std::vector<uint8_t> saved() const;

 private:
  cria_status answer(const char* text, size_t n_bytes);
  static cria_chat_config config_of(bool exact_context);
  static size_t required_bytes(const hosted::ModelSession& model, bool exact_context);

  hosted::ModelSession model_;
  test::AlignedMemory memory_;
  cria_chat* chat_ = nullptr;
};

// Options for a model, with the exact backend and one thread.
[[nodiscard]] hosted::CommonOptions chat_options(const std::string& model_path);

}  // namespace cria::fuzz
