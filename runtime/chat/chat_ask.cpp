#include "runtime/chat/chat_ask.h"

#include <algorithm>

#include "runtime/chat/chat_context.h"
#include "runtime/chat/chat_messages.h"
#include "runtime/chat/chat_room.h"
#include "runtime/decode/slots.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

// Planning ---------------------------------------------------------------------------------------

// Fills next with the messages after a part of said; kNothingToSample when they give no token.
Status encode_new(cria_chat* c, cria_workspace* w, ChatPart part) {
  c->n_next = 0;
  const std::span<const cria_message> view = view_of(*c, 0, c->n_messages);
  for (uint32_t i = part.n_messages; i < c->n_messages; ++i) {
    c->memory.starts[i] = part.n_tokens + c->n_next;
    CRIA_TRY(encode_messages(c, w, view.first(i + 1), i, i + 1 == c->n_messages));
  }
  return c->n_next > 0 ? Status::kOk : Status::kNothingToSample;
}

// Plans to read what the session lacks of a part of said, then next. At least one token is read.
void plan_behind(cria_chat* c, ChatPart part) {
  const uint32_t most = part.n_tokens - (c->n_next == 0 ? 1 : 0);
  end_session(c, n_held(*c, most));
  const uint32_t* const unread = c->memory.said + c->session->position;
  const uint32_t n_unread = part.n_tokens - c->session->position;
  uint32_t* const next = c->memory.next;
  std::copy_backward(next, next + c->n_next, next + c->n_next + n_unread);
  std::copy(unread, unread + n_unread, next);
  c->n_next += n_unread;
  c->stays = part;
  c->rereads_all = false;
  c->n_left_out = 0;
}

// Plans to read next after what is left of a part of said without its first exchanges.
Status plan_dropping(cria_chat* c, cria_workspace* w, ChatPart part, uint32_t n_exchanges) {
  cut_context(c, part);
  CRIA_TRY(drop_exchanges(c, w, n_exchanges));
  // Where only what every conversation begins with is left, all of that is read.
  const bool is_begun = c->n_in_context != 0;
  plan_behind(c,
              is_begun ? all_said(*c) : ChatPart{has_system(*c) ? 1U : 0U, c->session->position});
  return Status::kOk;
}

// Plans what has to be read for the newest message after a part of said.
Status plan_reading(cria_chat* c, cria_workspace* w, ChatPart part) {
  const uint32_t room = room_for_answer(*c);
  if (part.n_tokens == 0) return read_again(c, w, room, false);
  const Status status = encode_new(c, w, part);
  if (status == Status::kContextFull) return read_again(c, w, room, true);
  CRIA_TRY(status);
  const uint64_t n_new = uint64_t{c->n_next} + room;
  if (has_room(*c, part.n_tokens + n_new)) {
    plan_behind(c, part);
    return Status::kOk;
  }
  const uint32_t n = can_drop(*c, part) ? n_to_drop(*c, part, n_new, spare_room(*c)) : 0;
  // A long question may still fit when the room for its answer is small, or alone.
  return n > 0 ? plan_dropping(c, w, part, n) : read_again(c, w, room, true);
}

// Where said ends with the answer that makes way, all that has to be read is the token before that.
bool plan_again(cria_chat* c) {
  const StoredMessage& answer = c->memory.messages[c->n_messages];
  const bool is_said = c->n_hidden == 1 && c->n_in_context > c->n_messages && answer.position > 0 &&
                       (answer.marks & (kAnswered | kMoved)) == kAnswered;
  if (!is_said || !has_room(*c, uint64_t{answer.position} + room_for_answer(*c))) return false;
  c->n_next = 0;
  plan_behind(c, {c->n_messages, answer.position});
  return true;
}

// Memory -----------------------------------------------------------------------------------------

// Whether a question gives tokens to read besides those that every conversation begins with. Other
// errors are those of the conversation.
Status check_is_said(cria_chat* c, cria_workspace* w, const Question& question) {
  c->memory.view[0] = {CRIA_USER, question.text, question.n_bytes};
  c->n_next = 0;
  CRIA_TRY(encode_messages(c, w, {c->memory.view, size_t{0}}, 0, false));
  const uint32_t n_begin = c->n_next;
  c->n_next = 0;
  const Status status = encode_messages(c, w, {c->memory.view, 1}, 0, true);
  return status == Status::kOk && c->n_next <= n_begin ? Status::kNothingToSample : Status::kOk;
}

// Whether a question could be asked if all exchanges left: then it is worth their leaving.
Status check_alone(cria_chat* c, cria_workspace* w, const Question& question) {
  const bool with_system = has_system(*c);
  const uint32_t n_system = with_system ? c->memory.messages[0].n_bytes : 0;
  const uint32_t n_hidden = text_before(*c, c->n_messages + c->n_hidden) - c->n_text;
  const uint32_t n_messages = (with_system ? 1 : 0) + std::max(c->n_hidden, uint32_t{1}) + 1;
  if (n_messages > c->max_messages || question.n_bytes > c->max_text_bytes - n_system - n_hidden) {
    return Status::kTextTooLong;
  }
  c->memory.view[0] = {CRIA_SYSTEM, c->memory.text, n_system};
  cria_message* const last = c->memory.view + (with_system ? 1 : 0);
  *last = {CRIA_USER, question.text, question.n_bytes};
  c->n_next = 0;
  CRIA_TRY(encode_messages(c, w, {c->memory.view, last + 1}, 0, true));
  return has_room(*c, uint64_t{c->n_next} + 1) ? Status::kOk : Status::kContextFull;
}

// Makes memory for a question and an answer, at the cost of the oldest exchanges.
Status make_text_room(cria_chat* c, cria_workspace* w, const Question& question) {
  const bool is_new = question.text != nullptr;
  const uint32_t n_staying = is_new ? 0 : 1;
  const uint32_t n_new = is_new ? 1 : 0;
  const auto is_full = [&] {
    const uint32_t n_all = c->n_messages + c->n_hidden;
    const uint64_t n_bytes = is_new ? question.n_bytes : 0;
    return c->n_messages + n_new + std::max(c->n_hidden, uint32_t{1}) > c->max_messages ||
           c->n_text + n_bytes + c->max_text_bytes / 4 > c->max_text_bytes ||
           text_before(*c, n_all) + n_bytes > c->max_text_bytes;
  };
  if (is_full() && is_new && n_exchanges(*c) > 0) CRIA_TRY(check_alone(c, w, question));
  while (is_full() && n_exchanges(*c) > n_staying) {
    const ChatPart part = part_before(*c, c->n_messages);
    if (can_drop(*c, part) && exchanges_in(*c, part) > 0) {
      cut_context(c, part);
      CRIA_TRY(drop_exchanges(c, w, 1));
    } else {
      note_dropped(c, 1);
      forget_context(c);
    }
  }
  return c->n_messages + n_new + 1 > c->max_messages ? Status::kTextTooLong : Status::kOk;
}

// Finds the first of the messages that make way when the answer to a question begins: the newest
// question's answer, or that question too; n_messages where none does. False where there is no such
// question.
bool find_replaced(const cria_chat& c, const Question& question, uint32_t* first) {
  const StoredMessage* const messages = c.memory.messages;
  const uint32_t n = c.n_messages;
  *first = n;
  if (question.text != nullptr && !question.is_instead) return true;
  const bool is_open = n > 0 && messages[n - 1].role == CRIA_USER;
  if (!is_open && (n < 2 || messages[n - 2].role != CRIA_USER)) return false;
  const uint32_t newest = is_open ? n - 1 : n - 2;
  *first = question.text != nullptr ? newest : newest + 1;
  return true;
}

Status plan_question(cria_chat* c, cria_workspace* w, const Question& question) {
  const uint64_t n_dropped = c->n_dropped;
  if (question.text != nullptr) CRIA_TRY(check_is_said(c, w, question));
  CRIA_TRY(make_text_room(c, w, question));
  if (question.text == nullptr && plan_again(c)) return Status::kOk;
  const ChatPart part = part_before(*c, c->n_messages);
  if (question.text != nullptr) {
    if (!add_message(c, CRIA_USER, question.text, question.n_bytes)) return Status::kTextTooLong;
    c->asks_anew = true;
    const bool is_moved = c->session->first_moved < c->session->position;
    if (c->n_dropped != n_dropped && is_moved) c->memory.messages[c->n_messages - 1].marks = kMoved;
  }
  return plan_reading(c, w, part);
}

// Where another answer to the newest question, and the conversation that goes on, can be read from:
// before the token whose logits the answer begins with. What opens the answer's turn is written
// otherwise later by a template that drops thinking, so there it comes before that.
uint32_t end_of_question(cria_chat* c, cria_workspace* w) {
  const uint32_t last = c->step_end - 1;
  if ((c->session->model->chat_template.header.flags & format::kChatDropThinking) == 0) return last;
  const uint32_t question = c->n_messages - 1;
  const uint32_t begin = question < c->stays.n_messages ? c->memory.messages[question].position
                                                        : c->memory.starts[question];
  const std::span<const cria_message> view = view_of(*c, c->n_left_out, c->n_messages);
  const uint32_t n_next = c->n_next;
  const Status status = encode_messages(c, w, view, view.size() - 1, false);
  const uint32_t end = begin + c->n_next - n_next;
  c->n_next = n_next;
  return status == Status::kOk ? std::min(last, end) : last;
}

}  // namespace

void give_entry(cria_chat* c, cria_batch_entry* entry) {
  c->step_end = c->session->position + c->n_next;
  *entry = {c->session, c->memory.next, c->n_next, nullptr, {}};
}

bool is_plan_read(const cria_chat& c) { return c.session->position == c.step_end; }

void commit_plan(cria_chat* c) {
  for (uint32_t i = c->stays.n_messages; i < c->n_messages; ++i) {
    StoredMessage* const message = c->memory.messages + i;
    message->position = c->memory.starts[i];
    message->marks &= c->rereads_all ? 0 : ~uint32_t{kAnswered | kCut};
  }
  if (c->n_left_out > 0) note_dropped(c, c->n_left_out);
  c->rereads_all = false;
  c->n_left_out = 0;
  const uint32_t* const read = c->session->history;
  std::copy(read + c->stays.n_tokens, read + c->session->position,
            c->memory.said + c->stays.n_tokens);
  c->n_in_context = c->n_messages;
  c->n_said = c->session->position;
}

void take_question_back(cria_chat* c) {
  if (c->asks_anew) erase_messages(c, c->n_messages - 1, c->n_messages);
  show_messages(c);
}

Status ask_question(cria_chat* c, cria_workspace* w, const Question& question,
                    cria_batch_entry* entry) {
  uint32_t first = 0;
  if (c->phase != ChatPhase::kIdle || !find_replaced(*c, question, &first)) {
    return Status::kInvalidArgument;
  }
  hide_messages(c, first);
  c->asks_anew = false;
  c->max_tokens = question.max_tokens;
  c->n_answered = 0;
  const Status status = plan_question(c, w, question);
  if (status != Status::kOk) {
    take_question_back(c);
    return status;
  }
  c->phase = ChatPhase::kReading;
  c->n_read += c->n_next;
  give_entry(c, entry);
  if (keeps_blocks(c->session->model->config)) {
    static_cast<void>(keep_snapshot(c->session, end_of_question(c, w)));
  }
  return Status::kOk;
}

}  // namespace cria
