// A conversation with an open model: cria_chat on memory of its own, and its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cria_chat.h>
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// Longest text in bytes that a chat in a context of this size asks a workspace to encode.
uint32_t chat_text_bytes(uint32_t context);

struct ChatAnswer {
  cria_chat_result result = {};
  bool is_empty = true;  // no text was shown
  double read_seconds = 0.0;
  double answer_seconds = 0.0;  // from the first token to the last
};

class ChatSession {
 public:
  // Throws ProgramError kInvalidInput when the model has no chat template.
  ChatSession(const ModelSession& model, bool exact_context);

  // Forgets the conversation and sets what the model is told before it; empty: nothing. Throws
  // ProgramError where it is too long.
  void begin(const std::string& system);
  // What the model is told before the conversation; empty: nothing.
  std::string system() const;
  size_t n_messages() const { return cria_chat_n_messages(chat_); }

  // Says message and streams the answer, of at most max_tokens (0: any) tokens, to out, without a
  // newline behind it. Ctrl-C ends it and keeps what was answered so far; while the message is read
  // it takes the message back, which throws ProgramError kInterrupted. Allocates nothing.
  ChatAnswer answer(std::string_view message, const cria_sampling& sampling, uint32_t max_tokens,
                    TextStream* out);

  // The conversation and its KV cache, to a file and back. Throw ProgramError; a file that belongs
  // to another model or KV format or does not fit changes nothing.
  void save(const std::string& path) const;
  void load(const std::string& path);

 private:
  const ModelSession& model_;
  ArenaMemory memory_;
  cria_chat* chat_ = nullptr;
};

}  // namespace cria::hosted
