// The object behind cria_chat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cria_chat.h>
#include "quant/model/memory_plan.h"
#include "runtime/base/status.h"

namespace cria {

inline constexpr uint64_t kChatObjectBytes = 512;
// Tokens that may stand between an answer and the next message.
inline constexpr uint32_t kMostClosing = 256;

// What became of a message's tokens.
enum MessageMark : uint32_t {
  kAnswered = 1,  // said by the model, token by token, and in said as it was
  kCut = 2,       // of an answer: its last token was not read when it ended
  kMoved = 4,     // exchanges were dropped from the context after it, or for it
  kAllMarks = 7
};

// A message; their texts stand one after the other.
struct StoredMessage {
  uint32_t role;
  uint32_t n_bytes;
  uint32_t position;  // where its tokens begin in said, if they are there
  uint32_t marks;
};
static_assert(sizeof(StoredMessage) == 16);

struct ChatMemory {
  StoredMessage* messages;  // [max_messages]
  cria_message* view;       // [max_messages], for encoding
  char* text;               // [max_text_bytes]
  char* piece;              // [piece_bytes]
  uint32_t* next;           // [context] tokens to be read
  uint32_t* starts;         // [max_messages] where messages begin once what was planned is read
  uint32_t* said;           // [context + 1 + kMostClosing]
  uint32_t* closing;        // [kMostClosing] the template's, after an answer
};

// What the newest answer is at.
enum class ChatPhase : uint32_t { kIdle, kReading, kSpeaking };

// The first messages of a conversation, and as many tokens of said.
struct ChatPart {
  uint32_t n_messages;
  uint32_t n_tokens;
};

}  // namespace cria

// said is what the context holds by right: the tokens of the first messages, with what closes the
// last answer. The session may hold less of it, or something else: then it is read again, as these
// tokens, for the bits that it had. Only what follows dropped exchanges cannot be had again.
struct cria_chat {
  cria_session* session;
  cria::ChatMemory memory;
  uint32_t max_messages;
  uint32_t max_text_bytes;
  uint32_t piece_bytes;
  bool rereads;  // when room is made
  cria_thinking thinking;
  // The conversation.
  uint32_t n_messages;
  uint32_t n_text;        // bytes
  uint32_t n_hidden;      // messages after the others, which make way when an answer begins
  uint32_t n_in_context;  // messages whose tokens are in said; 0: said is empty
  uint32_t n_said;
  uint32_t n_closing;
  bool has_closing;  // the closing tokens are known
  // The answer that is being made.
  cria::ChatPhase phase;
  bool asks_anew;        // the question came with ask, not by cria_chat_add
  cria::ChatPart stays;  // of said before what was planned, which starts tells of
  bool rereads_all;      // nothing of it stays,
  uint32_t n_left_out;   // and so many exchanges leave once it is read
  uint32_t step_end;     // the session's position then
  uint32_t n_next;
  uint32_t n_lead;  // tokens before the first exchange, of a conversation that is read again
  uint32_t max_tokens;
  uint32_t n_answered;
  uint32_t last_token;  // drawn
  cria_text_state text_state;
  uint64_t n_read;
  uint64_t n_dropped;
};
static_assert(sizeof(cria_chat) <= cria::kChatObjectBytes);
