// Conversations as bytes: cria_chat_save and cria_chat_load.
#include <algorithm>
#include <cstring>

#include "quant/format/checksum.h"
#include "runtime/chat/chat.h"
#include "runtime/chat/chat_context.h"
#include "runtime/chat/chat_messages.h"
#include "runtime/decode/slots.h"
#include "runtime/decode/state.h"

namespace cria {
namespace {

constexpr uint64_t kSavedMagic = 0x3374616863616972;  // "riachat3"

// Followed by messages, text, the tokens of said that the session lacks, and its state.
struct SavedHeader {
  uint64_t magic;
  uint64_t checksum;  // XXH64 of all but the state, which has its own, with zero here
  uint32_t n_messages;
  uint32_t n_text;
  uint32_t n_in_context;
  uint32_t n_unread;
  uint32_t thinking;
  uint32_t reserved;  // zero
};
static_assert(sizeof(SavedHeader) == 40);

size_t body_bytes(const SavedHeader& h) {
  return h.n_messages * sizeof(StoredMessage) + h.n_text + h.n_unread * sizeof(uint32_t);
}

// The session without what is not in said, as it is where said is empty; without the logits, which
// no answer begins with. A copy, whose caches and slots are the session's own: it is not cut.
cria_session session_of(const cria_chat& c) {
  cria_session session = *c.session;
  session.has_logits = false;
  if (c.n_in_context == 0) return session;
  const uint32_t n = n_held(c, c.n_said);
  if (n < session.position) session.position = last_followed(session, n);
  return session;
}

SavedHeader header_of(const cria_chat& c, const cria_session& session) {
  const uint32_t n_unread = c.n_in_context != 0 ? c.n_said - session.position : 0;
  return {kSavedMagic,
          0,
          c.n_messages,
          c.n_text,
          c.n_in_context,
          n_unread,
          static_cast<uint32_t>(c.thinking),
          0};
}

Status save(const cria_chat& c, uint8_t* out, size_t n_bytes) {
  if (c.phase != ChatPhase::kIdle) return Status::kInvalidArgument;
  if (n_bytes < cria_chat_save_size(&c)) return Status::kBufferTooSmall;
  const cria_session session = session_of(c);
  SavedHeader h = header_of(c, session);
  uint8_t* p = out + sizeof h;
  const auto put = [&p](const void* from, size_t n) {
    if (n > 0) std::memcpy(p, from, n);
    p += n;
  };
  for (uint32_t i = 0; i < c.n_messages; ++i) {
    StoredMessage m = c.memory.messages[i];
    // Of no use to whoever loads it.
    if (i >= c.n_in_context) m.position = 0;
    if (c.n_in_context == 0) m.marks = 0;
    put(&m, sizeof m);
  }
  put(c.memory.text, c.n_text);
  put(c.memory.said + session.position, h.n_unread * sizeof(uint32_t));
  h.checksum = sealed_xxh64(h, out + sizeof h, body_bytes(h));
  std::memcpy(out, &h, sizeof h);
  return from_public(cria_state_save(&session, p, n_bytes - static_cast<size_t>(p - out)));
}

// Only the model's messages are answers, and only an answer's last token may be unread.
bool marks_hold(const StoredMessage& m) {
  if (m.marks > kAllMarks) return false;
  if ((m.marks & kCut) != 0 && (m.marks & kAnswered) == 0) return false;
  return (m.marks & kAnswered) == 0 || m.role == CRIA_ASSISTANT;
}

// Whether a chat can have saved these messages: the texts are as long as they say, the system's
// comes first, and those in the context begin one after the other among its tokens.
bool messages_hold(const SavedHeader& h, const uint8_t* messages, uint64_t n_said) {
  uint64_t n_text = 0;
  uint32_t position = 0;
  for (uint32_t i = 0; i < h.n_messages; ++i) {
    StoredMessage m;
    std::memcpy(&m, messages + i * sizeof m, sizeof m);
    if (m.role > CRIA_ASSISTANT || (m.role == CRIA_SYSTEM && i != 0)) return false;
    if (!marks_hold(m)) return false;
    n_text += m.n_bytes;
    if (i >= h.n_in_context) continue;
    if (m.position < position || m.position > n_said) return false;
    position = m.position;
  }
  return n_text == h.n_text;
}

// Whether unread tokens end as every context does: with what closes an answer.
bool unread_holds(const cria_chat& c, const uint8_t* unread, uint32_t n) {
  const uint32_t n_closing = std::min(n, c.n_closing);
  return n_closing == 0 || std::memcmp(unread + (n - n_closing) * sizeof(uint32_t),
                                       c.memory.closing + (c.n_closing - n_closing),
                                       n_closing * sizeof(uint32_t)) == 0;
}

bool tokens_hold(const cria_chat& c, const uint8_t* tokens, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t token;
    std::memcpy(&token, tokens + i * sizeof token, sizeof token);
    if (token >= c.session->model->scalars().vocab_size) return false;
  }
  return true;
}

// The most tokens of a full context and what closes an answer that filled it.
uint32_t n_most_said(const cria_chat& c) { return c.session->context + 1 + c.n_closing; }

bool has_moved(const cria_chat& c) {
  const StoredMessage* const begin = c.memory.messages + (has_system(c) ? 1 : 0);
  const StoredMessage* const end = c.memory.messages + c.n_in_context;
  return begin < end && begin->position < c.session->position &&
         std::any_of(begin, end, [](const StoredMessage& m) { return (m.marks & kMoved) != 0; });
}

Status load(cria_chat* c, const uint8_t* saved, size_t n_bytes) {
  SavedHeader h;
  if (c->phase != ChatPhase::kIdle) return Status::kInvalidArgument;
  if (n_bytes < sizeof h) return Status::kBadState;
  std::memcpy(&h, saved, sizeof h);
  if (h.magic != kSavedMagic || h.n_in_context > h.n_messages || h.reserved != 0 ||
      h.thinking > CRIA_THINKING_OFF) {
    return Status::kBadState;
  }
  // What was read for a model that was to think otherwise.
  const bool is_alike = h.thinking == static_cast<uint32_t>(c->thinking);
  if (h.n_messages > c->max_messages || h.n_text > c->max_text_bytes) return Status::kTextTooLong;
  if (h.n_unread > n_bytes / sizeof(uint32_t) || n_bytes - sizeof h < body_bytes(h)) {
    return Status::kBadState;
  }
  const uint8_t* messages = saved + sizeof h;
  const uint8_t* text = messages + h.n_messages * sizeof(StoredMessage);
  const uint8_t* unread = text + h.n_text;
  const uint8_t* state = unread + h.n_unread * sizeof(uint32_t);
  const size_t state_bytes = n_bytes - static_cast<size_t>(state - saved);
  const uint64_t n_said = uint64_t{positions_of_state(state, state_bytes)} + h.n_unread;
  if (sealed_xxh64(h, messages, body_bytes(h)) != h.checksum ||
      !messages_hold(h, messages, n_said) || !tokens_hold(*c, unread, h.n_unread) ||
      (is_alike && !unread_holds(*c, unread, h.n_unread))) {
    return Status::kBadState;
  }
  if (h.n_in_context > 0 && n_said > n_most_said(*c)) return Status::kContextFull;
  CRIA_TRY(from_public(cria_state_load(c->session, state, state_bytes)));
  const auto take = [](void* to, const uint8_t* from, size_t n) {
    if (n > 0) std::memcpy(to, from, n);
  };
  take(c->memory.messages, messages, h.n_messages * sizeof(StoredMessage));
  take(c->memory.text, text, h.n_text);
  c->n_messages = h.n_messages;
  c->n_text = h.n_text;
  c->n_in_context = h.n_in_context;
  c->n_said = h.n_in_context > 0 ? static_cast<uint32_t>(n_said) : 0;
  if (h.n_in_context > 0) {
    cria_session* const s = c->session;
    std::copy(s->history, s->history + s->position, c->memory.said);
    take(c->memory.said + s->position, unread, h.n_unread * sizeof(uint32_t));
    if (has_moved(*c)) s->first_moved = c->memory.messages[has_system(*c) ? 1 : 0].position;
    if (!is_alike) forget_context(c);
  }
  return Status::kOk;
}

}  // namespace
}  // namespace cria

using cria::to_public;

extern "C" {

size_t cria_chat_save_size(const cria_chat* chat) {
  if (chat == nullptr) return 0;
  const cria_session session = cria::session_of(*chat);
  return sizeof(cria::SavedHeader) + cria::body_bytes(cria::header_of(*chat, session)) +
         cria_state_size(&session);
}

cria_status cria_chat_save(const cria_chat* chat, void* destination, size_t n_bytes) {
  if (chat == nullptr || destination == nullptr) return CRIA_INVALID_ARGUMENT;
  return to_public(cria::save(*chat, static_cast<uint8_t*>(destination), n_bytes));
}

cria_status cria_chat_load(cria_chat* chat, const void* saved, size_t n_bytes) {
  if (chat == nullptr || saved == nullptr) return CRIA_INVALID_ARGUMENT;
  return to_public(cria::load(chat, static_cast<const uint8_t*>(saved), n_bytes));
}

}  // extern "C"
