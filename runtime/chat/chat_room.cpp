#include "runtime/chat/chat_room.h"

#include <algorithm>

#include "runtime/chat/chat_messages.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {

bool has_room(const cria_chat& c, uint64_t n_tokens) { return n_tokens <= c.session->context; }

std::span<const cria_message> view_of(const cria_chat& c, uint32_t n_left_out, uint32_t n) {
  const uint32_t skip_begin = has_system(c) ? 1 : 0;
  const uint32_t skip_end = behind_exchanges(c, n_left_out);
  uint32_t n_bytes = 0;
  size_t count = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const StoredMessage& m = c.memory.messages[i];
    if (i < skip_begin || i >= skip_end) {
      c.memory.view[count++] = {static_cast<cria_role>(m.role), c.memory.text + n_bytes, m.n_bytes};
    }
    n_bytes += m.n_bytes;
  }
  return {c.memory.view, count};
}

Status encode_messages(cria_chat* c, cria_workspace* w, std::span<const cria_message> view,
                       size_t first, bool opens_turn) {
  size_t n = 0;
  const Status status = from_public(cria_encode_chat(
      w, view.data(), view.size(), first, opens_turn ? CRIA_TURN_OPENED : CRIA_TURN_LATER,
      c->memory.next + c->n_next, c->session->context - c->n_next, &n));
  if (status == Status::kOk) c->n_next += static_cast<uint32_t>(n);
  return status == Status::kBufferTooSmall ? Status::kContextFull : status;
}

uint32_t room_for_answer(const cria_chat& c) {
  constexpr uint32_t kUsual = 256;
  const uint32_t context = c.session->context;
  const uint32_t wanted = std::max(context / 8, std::min(context / 4, kUsual));
  return c.max_tokens != 0 ? std::min(c.max_tokens, wanted) : wanted;
}

uint32_t spare_room(const cria_chat& c) { return c.session->context / 4; }

void note_dropped(cria_chat* c, uint32_t n_exchanges) {
  erase_messages(c, has_system(*c) ? 1 : 0, behind_exchanges(*c, n_exchanges));
  c->n_dropped += n_exchanges;
}

namespace {

// Positions that leave with the first n exchanges: those up to the next message, or all.
uint32_t positions_of(const cria_chat& c, uint32_t n) {
  const uint32_t begin = c.memory.messages[has_system(c) ? 1 : 0].position;
  const uint32_t behind = behind_exchanges(c, n);
  const uint32_t held = c.session->position;
  const uint32_t end = behind < c.n_in_context ? c.memory.messages[behind].position : held;
  return end > begin ? end - begin : 0;
}

}  // namespace

uint32_t exchanges_in_context(const cria_chat& c) {
  uint32_t n = 0;
  while (n < n_exchanges(c) && behind_exchanges(c, n + 1) <= c.n_in_context) ++n;
  return n;
}

bool can_drop(const cria_chat& c) {
  const cria_model& model = *c.session->model;
  return !c.rereads && c.n_in_context != 0 &&
         chat_drops_exchanges(model.tokenizer, model.chat_template, has_system(c));
}

Status drop_exchanges(cria_chat* c, cria_workspace* w, uint32_t n) {
  const uint32_t first = has_system(*c) ? 1 : 0;
  const uint32_t end = behind_exchanges(*c, n);
  const uint32_t n_positions = positions_of(*c, n);
  CRIA_TRY(from_public(cria_drop(w, c->session, c->memory.messages[first].position, n_positions)));
  uint32_t n_moved = n_positions;
  if (end >= c->n_in_context && c->n_pending > 0) {
    // What stands between the last answer and the next message leaves with that answer.
    const uint32_t n_kept = c->n_next > c->n_pending ? c->n_next - c->n_pending : 0;
    std::copy(c->memory.next + c->n_pending, c->memory.next + c->n_pending + n_kept,
              c->memory.next);
    c->n_next = n_kept;
    n_moved += c->n_pending;
    c->n_pending = 0;
  }
  c->n_in_context -= std::min(end, c->n_in_context) - std::min(first, c->n_in_context);
  note_dropped(c, n);
  for (uint32_t i = first; i < c->n_messages; ++i) c->memory.messages[i].position -= n_moved;
  c->answer_position -= std::min(c->answer_position, n_positions);
  return Status::kOk;
}

Status drop_for(cria_chat* c, cria_workspace* w, uint64_t n_tokens, uint32_t spare) {
  const uint32_t most = std::min(n_exchanges(*c) - 1, exchanges_in_context(*c));
  const uint64_t context = c->session->context;
  const auto is_enough = [&](uint32_t n, uint32_t more) {
    return c->session->position - positions_of(*c, n) + n_tokens + more <= context;
  };
  uint32_t n = 1;
  while (n < most && !is_enough(n, spare)) ++n;
  if (n > most || !is_enough(n, 0)) return Status::kContextFull;
  return drop_exchanges(c, w, n);
}

namespace {

// Fills next with the messages but those of the first n_left_out exchanges, and what was answered
// so far. kContextFull when they and room do not fit. A turn is opened behind them unless later
// messages are to follow.
Status encode_all(cria_chat* c, cria_workspace* w, bool opens_turn, uint32_t n_left_out,
                  uint32_t room) {
  const bool is_speaking = c->phase == ChatPhase::kSpeaking;
  // The answer is read as the tokens that were drawn, not as its text.
  const uint32_t n = c->n_messages - (is_speaking ? 1 : 0);
  const uint32_t n_skipped = behind_exchanges(*c, n_left_out) - (has_system(*c) ? 1 : 0);
  const std::span<const cria_message> view = view_of(*c, n_left_out, n);
  // What every conversation begins with stays when its first exchange leaves.
  c->n_next = 0;
  CRIA_TRY(encode_messages(c, w, view.first(0), 0, false));
  uint32_t position = has_system(*c) ? 0 : c->n_next;
  c->n_next = 0;
  for (size_t i = 0; i < view.size(); ++i) {
    const auto index = static_cast<uint32_t>(i) + (i > 0 || !has_system(*c) ? n_skipped : 0);
    c->memory.messages[index].position = position;
    CRIA_TRY(encode_messages(c, w, view.first(i + 1), i, opens_turn && i + 1 == view.size()));
    position = c->n_next;
  }
  if (is_speaking) {
    const uint32_t n_answered = c->session->position - c->answer_position;
    if (!has_room(*c, uint64_t{c->n_next} + n_answered + 1)) return Status::kContextFull;
    const uint32_t* answer = c->session->history + c->answer_position;
    std::copy(answer, answer + n_answered, c->memory.next + c->n_next);
    c->n_next += n_answered;
    c->memory.next[c->n_next++] = c->last_token;
  }
  return has_room(*c, uint64_t{c->n_next} + room) ? Status::kOk : Status::kContextFull;
}

// Fills next with what is to be read again, as read_again says: everything where that leaves least,
// else what leaves more.
Status encode_what_fits(cria_chat* c, cria_workspace* w, bool opens_turn, uint32_t least,
                        uint32_t more, uint32_t* n_left_out) {
  *n_left_out = 0;
  const Status status = encode_all(c, w, opens_turn, 0, least);
  if (status != Status::kContextFull) return status;
  // The newest exchange stays: the question at hand, or the one that is not yet there.
  uint32_t end = n_exchanges(*c) - (opens_turn ? 1 : 0);
  // Every exchange has tokens, so the more are left out, the better the others fit.
  for (uint32_t begin = 1; begin < end;) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (encode_all(c, w, opens_turn, middle, more) == Status::kOk) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  *n_left_out = end;
  return encode_all(c, w, opens_turn, end, 1);
}

}  // namespace

Status encode_for_later(cria_chat* c, cria_workspace* w, uint32_t wanted, uint32_t n_question) {
  if (c->n_messages == 0) {
    c->n_next = 0;
    return encode_messages(c, w, view_of(*c, 0, 0), 0, false);
  }
  uint32_t n_left_out = 0;
  const uint32_t more = wanted + spare_room(*c) + n_question;
  return encode_what_fits(c, w, false, wanted + 1, more, &n_left_out);
}

uint32_t n_common(const cria_chat& c, uint32_t most) {
  const uint32_t* held = c.session->history;
  uint32_t n = 0;
  while (n < most && held[n] == c.memory.next[n]) ++n;
  return n;
}

Status keep_first(cria_chat* c, uint32_t n_kept) {
  if (cria_reset(c->session, n_kept) != CRIA_OK) {  // a sliding window's ring has gone on
    n_kept = 0;
    CRIA_TRY(from_public(cria_reset(c->session, 0)));
  }
  std::copy(c->memory.next + n_kept, c->memory.next + c->n_next, c->memory.next);
  c->n_next -= n_kept;
  return Status::kOk;
}

Status read_again(cria_chat* c, cria_workspace* w, uint32_t wanted) {
  uint32_t n_left_out = 0;
  CRIA_TRY(encode_what_fits(c, w, true, wanted, wanted + spare_room(*c), &n_left_out));
  if (c->n_next == 0) return Status::kNothingToSample;
  if (c->phase == ChatPhase::kSpeaking) {
    const uint32_t n_drawn = c->session->position - c->answer_position + 1;
    c->answer_position = c->n_next - n_drawn;
    c->memory.messages[c->n_messages - 1].position = c->answer_position;
  }
  c->n_in_context = 0;  // until it is read
  c->n_ahead = 0;
  // The newest logits belong to the last token, so that next never becomes empty.
  CRIA_TRY(keep_first(c, n_common(*c, std::min(c->session->position, c->n_next - 1))));
  if (n_left_out > 0) note_dropped(c, n_left_out);
  return Status::kOk;
}

void rewind_to(cria_chat* c, uint32_t index) {
  const uint32_t position = c->memory.messages[index].position;
  // What precedes the first question may be read with it.
  const bool is_kept =
      index > (has_system(*c) ? 1U : 0U) && cria_reset(c->session, position) == CRIA_OK;
  c->n_in_context = is_kept ? index : 0;  // else the beginning is found by comparing
  c->n_pending = 0;
  c->n_ahead = 0;
  c->answer_position = 0;
}

}  // namespace cria
