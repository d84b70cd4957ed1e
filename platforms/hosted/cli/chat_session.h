// A conversation with an open model: cria_chat on memory of its own, and its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cria_chat.h>
#include "platforms/hosted/cli/cli_options.h"
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

struct ChatRequest {
  cria_sampling sampling = {};
  uint32_t max_tokens = 0;  // of an answer; 0: any
  Thinking thinking = Thinking::kPlain;
};

class ChatSession {
 public:
  // Throws ProgramError kInvalidInput when the model has no chat template.
  ChatSession(const ModelSession& model, bool exact_context);

  // Whether the model thinks, from the next question on.
  void set_thinking(cria_thinking thinking);
  cria_thinking thinking() const { return thinking_; }

  // Forgets the conversation and sets what the model is told before it; empty: nothing. Throws
  // ProgramError where it is too long.
  void begin(const std::string& system);
  // What the model is told before the conversation; empty: nothing.
  std::string system() const;
  // Tokens that stand before any first question.
  std::vector<uint32_t> lead() const;
  size_t n_messages() const { return cria_chat_n_messages(chat_); }

  // Reads ahead a part of what comes before any next message, until something can be read from
  // input; false when nothing is left. Changes no bit of what is answered.
  bool read_ahead(const ChatRequest& request, int input);
  // Positions and saved files are as if nothing had been read ahead.
  void take_ahead_back() { model_.check(cria_chat_keep(chat_, n_messages())); }

  // Says message and streams the answer to out, without a newline after it. Ctrl-C ends it and
  // keeps what was answered so far; while the message is read it takes the message back. Throws
  // ProgramError where the message cannot be said.
  ChatAnswer answer(std::string_view message, const ChatRequest& request, TextStream* out);
  // Answers the newest question again; the answer that it has stays until the new one begins.
  // Throws ProgramError kUsage where there is none.
  ChatAnswer answer_again(const ChatRequest& request, TextStream* out);
  // Says message instead of the newest question. Where that cannot be said, or is taken back, the
  // exchange is as it was.
  ChatAnswer answer_instead(std::string_view message, const ChatRequest& request, TextStream* out);
  // The newest question. Throws ProgramError kUsage where there is none.
  std::string question() const;
  // Forgets the newest question and its answer. Throws ProgramError kUsage where there is none.
  void take_back();
  // Exchanges that left the conversation so far, as the context was full.
  uint64_t n_dropped() const { return cria_chat_n_dropped(chat_); }

  // The conversation and its KV cache, to a file and back. Throw ProgramError; a file that belongs
  // to another model or KV format or does not fit changes nothing. What has to be read again for
  // any next message is read before it is saved, so that the file is the same whatever was read
  // ahead; Ctrl-C ends that and nothing is saved.
  void save(const std::string& path, const ChatRequest& request);
  void load(const std::string& path);

 private:
  using Asking = decltype(&cria_chat_answer);
  ChatAnswer run(Asking ask, const char* text, size_t n_bytes, const ChatRequest& request,
                 TextStream* out);
  size_t question_index() const;
  void read_all_ahead(const ChatRequest& request);
  bool opens_thinking() const;

  const ModelSession& model_;
  ArenaMemory memory_;
  cria_chat* chat_ = nullptr;
  cria_thinking thinking_ = CRIA_THINKING_DEFAULT;
  uint32_t think_token_ = CRIA_NO_TOKEN;  // special ones that stand for the tags
  uint32_t think_end_token_ = CRIA_NO_TOKEN;
};

}  // namespace cria::hosted
