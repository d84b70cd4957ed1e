// The object behind cria_chat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cria_chat.h>
#include "quant/memory_plan.h"
#include "runtime/base/status.h"

namespace cria {

inline constexpr uint64_t kChatObjectBytes = 512;
// Tokens that may stand between an answer and the next message.
inline constexpr uint32_t kMostClosing = 256;

// A message; their texts stand one after the other.
struct StoredMessage {
  uint32_t role;
  uint32_t n_bytes;
  uint32_t position;  // where its tokens begin in the context, if it is there
  uint32_t reserved;
};
static_assert(sizeof(StoredMessage) == 16);

struct ChatMemory {
  StoredMessage* messages;  // [max_messages]
  cria_message* view;       // [max_messages], for encoding
  char* text;               // [max_text_bytes]
  char* piece;              // [piece_bytes]
  uint32_t* next;           // [context] tokens to be read
  uint32_t* pending;        // [1 + kMostClosing] said, but not read: the end of the last answer
  uint32_t* closing;        // [kMostClosing] the template's, behind an answer
};

// What the newest answer is at.
enum class ChatPhase : uint32_t { kIdle, kReading, kSpeaking };

}  // namespace cria

struct cria_chat {
  cria_session* session;
  cria::ChatMemory memory;
  uint32_t max_messages;
  uint32_t max_text_bytes;
  uint32_t piece_bytes;
  bool rereads;  // when room is made
  // The conversation.
  uint32_t n_messages;
  uint32_t n_text;        // bytes
  uint32_t n_in_context;  // messages that the session holds, with nothing else, but for what is
                          // pending; 0: what it holds is not known to be of this conversation
  uint32_t n_pending;
  // Tokens of pending that were read ahead and end the session; none is pending then.
  uint32_t n_ahead;
  uint32_t n_closing;
  bool has_closing;  // the closing tokens are known
  // The answer that is being made.
  cria::ChatPhase phase;
  bool asks_anew;     // the question came with ask, not by cria_chat_add
  bool replaces;      // messages[n_messages] is the answer that makes way when another one begins
  uint32_t step_end;  // the session's position once what was planned is read
  uint32_t n_next;
  uint32_t max_tokens;
  uint32_t n_answered;
  uint32_t answer_position;  // of its first token, also when it is over and all messages are in the
                             // context; 0: not known
  uint32_t last_token;       // drawn, but not read
  cria_text_state text_state;
  uint64_t n_read;
  uint64_t n_dropped;
};
static_assert(sizeof(cria_chat) <= cria::kChatObjectBytes);
