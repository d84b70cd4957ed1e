#include "runtime/chat/chat_ahead.h"

#include <algorithm>

#include "runtime/chat/chat_messages.h"
#include "runtime/chat/chat_room.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

Status read(cria_chat* c, cria_workspace* w, const uint32_t* tokens, uint32_t n, uint32_t* n_read) {
  const cria_turn turn = {c->session, tokens, n, nullptr};
  CRIA_TRY(from_public(cria_step(w, &turn, 1)));
  c->n_read += n;
  *n_read = n;
  return Status::kOk;
}

// What stands between the last answer and the next message.
Status read_pending(cria_chat* c, cria_workspace* w, uint32_t* n_read) {
  CRIA_TRY(read(c, w, c->memory.pending, c->n_pending, n_read));
  c->n_ahead = c->n_pending;
  c->n_pending = 0;
  return Status::kOk;
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
  const uint32_t room = room_for_answer(*c);
  if (encode_for_later(c, w, room, guessed_question(*c)) != Status::kOk) return Status::kOk;
  const uint32_t n_kept = n_common(*c, std::min(c->session->position, c->n_next));
  c->n_in_context = 0;
  c->n_pending = 0;
  c->n_ahead = 0;
  c->answer_position = 0;
  // Whatever the session held, and however it was read: when nothing is left it is the same.
  CRIA_TRY(keep_first(c, n_kept));
  if (c->n_next == 0) return Status::kOk;
  return read(c, w, c->memory.next, std::min(c->n_next, most_tokens), n_read);
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
  if (c->n_in_context != c->n_messages || c->n_pending == 0) return Status::kOk;
  const uint64_t needed = uint64_t{c->n_pending} + 1 + room_for_answer(*c);
  if (c->session->position + needed <= c->session->context) return read_pending(c, w, n_read);
  // Dropping takes no reading, and what is dropped depends on the question.
  return can_drop(*c) ? Status::kOk : read_conversation(c, w, most_tokens, n_read);
}

void take_ahead_back(cria_chat* c) {
  if (c->n_ahead == 0) return;
  // Where the window of attention has gone on they stay.
  if (cria_reset(c->session, c->session->position - c->n_ahead) == CRIA_OK) {
    c->n_pending = c->n_ahead;
  }
  c->n_ahead = 0;
}

}  // namespace cria
