#include "runtime/chat/chat_ask.h"

#include <algorithm>

#include "runtime/chat/chat_ahead.h"
#include "runtime/chat/chat_messages.h"
#include "runtime/chat/chat_room.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {

namespace {

// Fills next with what follows the messages in the context; kNothingToSample when the newest ones
// give no token.
Status encode_new(cria_chat* c, cria_workspace* w) {
  c->n_next = 0;
  if (!has_room(*c, c->n_pending)) return Status::kContextFull;
  c->n_next = c->n_pending;
  std::copy(c->memory.pending, c->memory.pending + c->n_pending, c->memory.next);
  const std::span<const cria_message> view = view_of(*c, 0, c->n_messages);
  for (uint32_t i = c->n_in_context; i < c->n_messages; ++i) {
    c->memory.messages[i].position = c->session->position + c->n_next;
    CRIA_TRY(encode_messages(c, w, view.first(i + 1), i, i + 1 == c->n_messages));
  }
  return c->n_next > c->n_pending ? Status::kOk : Status::kNothingToSample;
}

// Plans what has to be read for the newest message.
Status plan_reading(cria_chat* c, cria_workspace* w) {
  const uint32_t room = room_for_answer(*c);
  if (c->n_in_context == 0 || c->session->position == 0) return read_again(c, w, room);
  const Status status = encode_new(c, w);
  if (status == Status::kContextFull) return read_again(c, w, room);
  CRIA_TRY(status);
  if (uint64_t{c->session->position} + c->n_next + room <= c->session->context) {
    return Status::kOk;
  }
  if (!can_drop(*c)) return read_again(c, w, room);
  if (c->n_ahead != 0) {
    take_ahead_back(c);
    const Status behind_all = encode_new(c, w);
    if (behind_all == Status::kContextFull) return read_again(c, w, room);
    CRIA_TRY(behind_all);
  }
  const Status dropped = drop_for(c, w, uint64_t{c->n_next} + room, spare_room(*c));
  // A long question may still fit when the room for its answer is small, or alone.
  return dropped == Status::kContextFull || dropped == Status::kForgotten ? read_again(c, w, room)
                                                                          : dropped;
}

// Whether a question could be asked if all exchanges left: then it is worth their leaving.
Status check_alone(cria_chat* c, cria_workspace* w, const char* text, size_t n_bytes) {
  const bool with_system = has_system(*c);
  const uint32_t n_system = with_system ? c->memory.messages[0].n_bytes : 0;
  if (n_bytes > c->max_text_bytes - n_system) return Status::kTextTooLong;
  c->memory.view[0] = {CRIA_SYSTEM, c->memory.text, n_system};
  cria_message* const question = c->memory.view + (with_system ? 1 : 0);
  *question = {CRIA_USER, text, n_bytes};
  c->n_next = 0;
  CRIA_TRY(encode_messages(c, w, {c->memory.view, question + 1}, 0, true));
  return has_room(*c, uint64_t{c->n_next} + 1) ? Status::kOk : Status::kContextFull;
}

// Makes memory for a question and an answer, at the cost of the oldest exchanges.
Status make_text_room(cria_chat* c, cria_workspace* w, const char* text, size_t n_bytes) {
  constexpr uint32_t kNewMessages = 2;
  const auto is_full = [&] {
    return c->n_messages + kNewMessages > c->max_messages ||
           n_bytes + c->max_text_bytes / 4 > c->max_text_bytes - c->n_text;
  };
  if (is_full() && n_exchanges(*c) > 0) {
    CRIA_TRY(check_alone(c, w, text, n_bytes));
    take_ahead_back(c);
  }
  while (is_full() && n_exchanges(*c) > 0) {
    c->n_next = 0;
    const bool is_held = can_drop(*c) && exchanges_in_context(*c) > 0;
    if (is_held && drop_exchanges(c, w, 1) == Status::kOk) continue;
    note_dropped(c, 1);
    c->n_in_context = 0;
  }
  return Status::kOk;
}

// Makes the newest question the last message. The answer that it has stays behind it until a new
// one begins. False when there is no question at the end.
bool find_question(cria_chat* c) {
  const uint32_t n = c->n_messages;
  const StoredMessage* messages = c->memory.messages;
  if (n > 0 && messages[n - 1].role == CRIA_USER) return true;
  if (n < 2 || messages[n - 2].role != CRIA_USER) return false;
  c->replaces = true;
  c->n_text -= messages[--c->n_messages].n_bytes;
  return true;
}

// Plans another answer to the newest question. Where the context ends with the one that it has,
// all that has to be read is the token before that.
Status plan_again(cria_chat* c, cria_workspace* w) {
  if (c->n_in_context < c->n_messages) return plan_reading(c, w);
  const uint32_t begin = c->answer_position;
  const bool ends_with_it = begin != 0 && c->n_in_context > c->n_messages;
  if (ends_with_it && has_room(*c, uint64_t{begin} + room_for_answer(*c))) {
    const uint32_t token = c->session->history[begin - 1];
    if (cria_reset(c->session, begin - 1) == CRIA_OK) {
      c->memory.next[0] = token;
      c->n_next = 1;
      c->n_in_context = c->n_messages;
      c->n_pending = 0;
      c->n_ahead = 0;
      return Status::kOk;
    }
  }
  rewind_to(c, c->n_messages - 1);
  return plan_reading(c, w);
}

}  // namespace

void give_turn(cria_chat* c, cria_turn* turn) {
  c->step_end = c->session->position + c->n_next;
  *turn = {c->session, c->memory.next, c->n_next, nullptr};
}

bool is_plan_read(const cria_chat& c) { return c.session->position == c.step_end; }

void take_question_back(cria_chat* c) {
  if (c->asks_anew) drop_last_message(c);
  if (!c->replaces) return;
  // The context may end amid what opens the answer.
  if (c->n_in_context == c->n_messages) rewind_to(c, c->n_messages - 1);
  c->n_text += c->memory.messages[c->n_messages++].n_bytes;
  c->replaces = false;
}

namespace {

// Whether a question gives tokens to read. Where everything is read again for each question, those
// of the other messages say nothing of it.
Status check_is_said(cria_chat* c, cria_workspace* w, const char* text, size_t n_bytes) {
  if (c->has_closing) return Status::kOk;
  c->memory.view[0] = {CRIA_USER, text, n_bytes};
  c->n_next = 0;
  const Status status = encode_messages(c, w, {c->memory.view, 1}, 0, true);
  return status == Status::kOk && c->n_next == 0 ? Status::kNothingToSample : Status::kOk;
}

}  // namespace

Status ask_question(cria_chat* c, cria_workspace* w, const char* text, size_t n_bytes,
                    uint32_t max_tokens, cria_turn* turn) {
  if (c->phase != ChatPhase::kIdle) return Status::kInvalidArgument;
  if (text != nullptr) {
    CRIA_TRY(check_is_said(c, w, text, n_bytes));
    CRIA_TRY(make_text_room(c, w, text, n_bytes));
    if (!add_message(c, CRIA_USER, text, n_bytes)) return Status::kTextTooLong;
  } else if (!find_question(c)) {
    return Status::kInvalidArgument;
  }
  c->asks_anew = text != nullptr;
  c->max_tokens = max_tokens;
  c->n_answered = 0;
  const Status status = c->replaces ? plan_again(c, w) : plan_reading(c, w);
  if (status != Status::kOk) {
    take_question_back(c);
    return status;
  }
  c->phase = ChatPhase::kReading;
  c->n_read += c->n_next;
  give_turn(c, turn);
  return Status::kOk;
}

}  // namespace cria
