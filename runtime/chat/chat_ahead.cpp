#include "runtime/chat/chat_ahead.h"

#include <algorithm>

#include "runtime/chat/chat_context.h"
#include "runtime/chat/chat_messages.h"
#include "runtime/chat/chat_room.h"
#include "runtime/decode/slots.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

Status read(cria_chat* c, cria_workspace* w, const uint32_t* tokens, uint32_t n, uint32_t* n_read) {
  if (n == 0) return Status::kOk;
  const cria_batch_entry entry = {c->session, tokens, n, nullptr, {}};
  CRIA_TRY(from_public(cria_step(w, &entry, 1)));
  c->n_read += n;
  *n_read = n;
  return Status::kOk;
}

// What of said the session lacks: what closes the last answer.
Status read_said(cria_chat* c, cria_workspace* w, uint32_t most_tokens, uint32_t* n_read) {
  end_session(c, n_held(*c, c->n_said));
  const uint32_t position = c->session->position;
  return read(c, w, c->memory.said + position, std::min(c->n_said - position, most_tokens), n_read);
}

// How long the next question may be: as long as the newest one, by its text, so that the guess is
// the same whenever it is made. Guessed wrong, more is read again.
uint32_t guessed_question(const cria_chat& c) {
  constexpr uint32_t kUsual = 16;
  constexpr uint32_t kBytesOfToken = 4;
  if (c.n_messages < 2) return kUsual;
  const StoredMessage& newest = c.memory.messages[c.n_messages - 2];
  return newest.role == CRIA_USER ? kUsual / 2 + newest.n_bytes / kBytesOfToken : kUsual;
}

// The conversation as it is read again for the next question, without what opens a turn. The
// question compares tokens (read_again), so nothing is lost but time where it changes others.
Status read_conversation(cria_chat* c, cria_workspace* w, uint32_t most_tokens, uint32_t* n_read) {
  // What the template refuses as it is, or what fits in no way, the question's reading tells of.
  // What the session holds then is of another conversation.
  const uint32_t room = room_for_answer(*c);
  const bool was_full = c->n_in_context != 0;
  if (encode_for_later(c, w, room, guessed_question(*c), was_full) != Status::kOk) {
    if (!was_full) end_session(c, 0);
    return Status::kOk;
  }
  // Whatever the session held, and however it was read: when nothing is left it is the same.
  keep_common(c, c->n_next);
  CRIA_TRY(read(c, w, c->memory.next, std::min(c->n_next, most_tokens), n_read));
  if (*n_read == c->n_next) {
    static_cast<void>(keep_snapshot(c->session, c->session->position));
  }
  return Status::kOk;
}

}  // namespace

Status read_ahead(cria_chat* c, cria_workspace* w, uint32_t max_tokens, uint32_t most_tokens,
                  uint32_t* n_read) {
  *n_read = 0;
  if (c->phase != ChatPhase::kIdle || most_tokens == 0) return Status::kInvalidArgument;
  const bool is_asked =
      c->n_messages > 0 && c->memory.messages[c->n_messages - 1].role == CRIA_USER;
  if (is_asked) return Status::kOk;
  c->max_tokens = max_tokens;
  if (c->n_in_context == 0) return read_conversation(c, w, most_tokens, n_read);
  // Messages of cria_chat_add are read with the question.
  if (c->n_in_context != c->n_messages) return Status::kOk;
  const ChatPart all = all_said(*c);
  const bool drops = drops_exchanges(*c, all);
  // What a question that was taken back has replaced is left to the next one: whether exchanges can
  // be dropped then depends on it.
  if (drops && !can_drop(*c, all)) return Status::kOk;
  if (has_room(*c, uint64_t{c->n_said} + 1 + room_for_answer(*c))) {
    return read_said(c, w, most_tokens, n_read);
  }
  // Dropping takes no reading, and what is dropped depends on the question.
  return drops ? Status::kOk : read_conversation(c, w, most_tokens, n_read);
}

}  // namespace cria
