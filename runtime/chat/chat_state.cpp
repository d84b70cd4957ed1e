// Conversations as bytes: cria_chat_save and cria_chat_load.
#include <cstring>

#include "quant/checksum.h"
#include "runtime/chat/chat.h"
#include "runtime/decode/session.h"

namespace cria {
namespace {

constexpr uint64_t kSavedMagic = 0x3174616863616972;  // "riachat1"

// Followed by messages, text, pending tokens and the session's state.
struct SavedHeader {
  uint64_t magic;
  uint64_t checksum;  // XXH64 of what lies between the header and the state, which has its own
  uint32_t n_messages;
  uint32_t n_text;
  uint32_t n_in_context;
  uint32_t n_pending;
};
static_assert(sizeof(SavedHeader) == 32);

size_t body_bytes(const SavedHeader& h) {
  return h.n_messages * sizeof(StoredMessage) + h.n_text + h.n_pending * sizeof(uint32_t);
}

Status save(const cria_chat& c, uint8_t* out, size_t n_bytes) {
  if (c.phase != ChatPhase::kIdle) return Status::kInvalidArgument;
  if (n_bytes < cria_chat_save_size(&c)) return Status::kBufferTooSmall;
  SavedHeader h = {kSavedMagic, 0, c.n_messages, c.n_text, c.n_in_context, c.n_pending};
  uint8_t* p = out + sizeof h;
  const auto put = [&p](const void* from, size_t n) {
    if (n > 0) std::memcpy(p, from, n);
    p += n;
  };
  for (uint32_t i = 0; i < c.n_messages; ++i) {
    StoredMessage m = c.memory.messages[i];
    if (i >= c.n_in_context) m.position = 0;  // of no use to whoever loads it
    put(&m, sizeof m);
  }
  put(c.memory.text, c.n_text);
  put(c.memory.pending, c.n_pending * sizeof(uint32_t));
  h.checksum = xxh64(out + sizeof h, body_bytes(h));
  std::memcpy(out, &h, sizeof h);
  return from_public(cria_state_save(c.session, p, n_bytes - static_cast<size_t>(p - out)));
}

// Whether a chat can have saved these messages: the texts are as long as they say, the system's
// comes first, and those in the context begin one behind the other.
bool messages_hold(const cria_chat& c, const SavedHeader& h, const uint8_t* messages) {
  uint64_t n_text = 0;
  uint32_t position = 0;
  for (uint32_t i = 0; i < h.n_messages; ++i) {
    StoredMessage m;
    std::memcpy(&m, messages + i * sizeof m, sizeof m);
    if (m.role > CRIA_ASSISTANT || (m.role == CRIA_SYSTEM && i != 0) || m.reserved != 0) {
      return false;
    }
    n_text += m.n_bytes;
    if (i >= h.n_in_context) continue;
    if (m.position < position || m.position > c.session->context) return false;
    position = m.position;
  }
  return n_text == h.n_text;
}

// What stands between the last answer and the next message: at most one token that was said but not
// read, then the template's.
bool pending_holds(const cria_chat& c, const uint8_t* pending, uint32_t n) {
  if (n == 0) return true;
  if (n < c.n_closing || n > c.n_closing + 1) return false;
  const size_t n_said = n - c.n_closing;
  return c.n_closing == 0 || std::memcmp(pending + n_said * sizeof(uint32_t), c.memory.closing,
                                         c.n_closing * sizeof(uint32_t)) == 0;
}

bool tokens_hold(const cria_chat& c, const uint8_t* tokens, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t token;
    std::memcpy(&token, tokens + i * sizeof token, sizeof token);
    if (token >= c.session->model->config.vocab_size) return false;
  }
  return true;
}

Status load(cria_chat* c, const uint8_t* saved, size_t n_bytes) {
  SavedHeader h;
  if (c->phase != ChatPhase::kIdle) return Status::kInvalidArgument;
  if (n_bytes < sizeof h) return Status::kBadState;
  std::memcpy(&h, saved, sizeof h);
  if (h.magic != kSavedMagic || h.n_in_context > h.n_messages) return Status::kBadState;
  if (h.n_messages > c->max_messages || h.n_text > c->max_text_bytes) return Status::kTextTooLong;
  if (h.n_pending > 1 + kMostClosing || n_bytes - sizeof h < body_bytes(h)) {
    return Status::kBadState;
  }
  const uint8_t* messages = saved + sizeof h;
  const uint8_t* text = messages + h.n_messages * sizeof(StoredMessage);
  const uint8_t* pending = text + h.n_text;
  const uint8_t* state = pending + h.n_pending * sizeof(uint32_t);
  if (xxh64(messages, body_bytes(h)) != h.checksum || !messages_hold(*c, h, messages) ||
      !tokens_hold(*c, pending, h.n_pending) || !pending_holds(*c, pending, h.n_pending)) {
    return Status::kBadState;
  }
  CRIA_TRY(from_public(
      cria_state_load(c->session, state, n_bytes - static_cast<size_t>(state - saved))));
  const auto take = [](void* to, const uint8_t* from, size_t n) {
    if (n > 0) std::memcpy(to, from, n);
  };
  take(c->memory.messages, messages, h.n_messages * sizeof(StoredMessage));
  take(c->memory.text, text, h.n_text);
  take(c->memory.pending, pending, h.n_pending * sizeof(uint32_t));
  c->n_messages = h.n_messages;
  c->n_text = h.n_text;
  c->n_pending = h.n_pending;
  c->n_ahead = 0;
  c->n_in_context = h.n_in_context;
  c->answer_position = 0;
  const bool is_within = h.n_in_context == 0 ||
                         c->memory.messages[h.n_in_context - 1].position <= c->session->position;
  if (!is_within) c->n_in_context = 0;
  return Status::kOk;
}

}  // namespace
}  // namespace cria

using cria::to_public;

extern "C" {

size_t cria_chat_save_size(const cria_chat* chat) {
  if (chat == nullptr) return 0;
  const cria::SavedHeader h = {
      0, 0, chat->n_messages, chat->n_text, chat->n_in_context, chat->n_pending};
  return sizeof h + cria::body_bytes(h) + cria_state_size(chat->session);
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
