// A conversation with a model: keeps the context filled with what was said, and makes room in it
// by forgetting the oldest exchanges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cria.h>
#include "platforms/hosted/chat_file.h"
#include "platforms/hosted/conversation.h"
#include "platforms/hosted/generation.h"
#include "platforms/hosted/model_session.h"
#include "platforms/hosted/text_stream.h"

namespace cria::hosted {

struct ChatAnswer {
  enum class Result {
    kAnswered,
    kInterrupted,
    kNoTokens,  // nothing to read, as the message and the template give no token: nothing was said
    kTooLong,   // the message alone does not fit the context: nothing was said
    kCut,       // the answer alone filled the context
    kOutputClosed,
  };
  Result result = Result::kAnswered;
  bool is_empty = false;  // no text was shown
  size_t n_dropped = 0;   // exchanges forgotten to make room
  size_t n_prefilled = 0;
  double prefill_seconds = 0.0;
  size_t n_tokens = 0;
  double decode_seconds = 0.0;  // from the first token to the last
};

// Longest message in bytes that an engine over a context of this size asks a session to encode.
uint32_t chat_text_bytes(uint32_t context);

class ChatEngine {
 public:
  // Throws ProgramError kBadInput when the model has no chat template. An answer has at most
  // max_tokens tokens.
  ChatEngine(const ModelSession& model, const cria_sampling& sampling, uint32_t max_tokens);

  // Forgets the conversation and sets what the model is told before it; empty: nothing.
  void reset(const std::string& system);
  const std::string& system() const { return system_; }
  size_t n_messages() const { return conversation_.n_messages(); }

  // Says message and streams the answer to out, without a newline behind it. Ctrl-C ends it and
  // keeps what was answered so far. Allocates nothing while tokens come, unless room is made.
  ChatAnswer answer(std::string_view message, TextStream* out);

  // The conversation and its KV cache.
  ChatRecord save() const;
  // Goes back to a saved one. Throws ProgramError when it belongs to another model or KV format or
  // does not fit the context, which changes nothing, or when its state is not that of its tokens;
  // then the conversation is empty.
  void load(const ChatRecord& record);

 private:
  class AnswerSink;
  enum class Room {
    kMade,
    kNotNeeded,  // there is nothing to feed
    kNone,
  };

  void find_closing();
  bool encode(size_t n_left_out, size_t first, std::vector<uint32_t>* tokens);
  Room plan_turn(ChatAnswer* answer);
  bool fits(size_t n_left_out, size_t room);
  Room make_room(size_t wanted, ChatAnswer* answer);
  void replace_context(size_t n_left_out, ChatAnswer* answer);
  bool feed(ChatAnswer* answer);
  ChatAnswer::Result speak(AnswerSink* sink, ChatAnswer* answer);
  size_t room_for_answer() const;

  const ModelSession& model_;
  const cria_sampling sampling_;
  const uint32_t max_tokens_;
  std::vector<uint32_t> closing_;  // template tokens behind an answer

  std::string system_;
  Conversation conversation_;
  std::vector<uint32_t> fed_;      // tokens of the context, position by position
  std::vector<uint32_t> pending_;  // said but not fed: the end of the last answer
  bool context_is_stale_ = false;  // the context is not what the conversation makes

  std::vector<uint32_t> next_;      // tokens to feed
  std::vector<uint32_t> answered_;  // tokens of the answer under way
  std::string answer_text_;
};

}  // namespace cria::hosted
