// cria_chat: messages to tokens that have to be read, and back. The context always holds a
// beginning of the conversation, or what is left of one, as the template makes it.
#include "runtime/chat/chat.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/base/enum_bits.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

bool is_room(const cria_chat& c, uint64_t n_tokens) { return n_tokens <= c.session->context; }

// Messages ---------------------------------------------------------------------------------------

bool has_system(const cria_chat& c) {
  return c.n_messages > 0 && c.memory.messages[0].role == CRIA_SYSTEM;
}

uint32_t text_before(const cria_chat& c, uint32_t index) {
  uint32_t n_bytes = 0;
  for (uint32_t i = 0; i < index; ++i) n_bytes += c.memory.messages[i].n_bytes;
  return n_bytes;
}

uint32_t n_exchanges(const cria_chat& c) {
  const std::span<const StoredMessage> messages(c.memory.messages, c.n_messages);
  return static_cast<uint32_t>(
      std::count_if(messages.begin(), messages.end(),
                    [](const StoredMessage& m) { return m.role == CRIA_USER; }));
}

// The message that follows the first n exchanges.
uint32_t behind_exchanges(const cria_chat& c, uint32_t n) {
  uint32_t index = has_system(c) ? 1 : 0;
  for (uint32_t n_seen = 0; index < c.n_messages; ++index) {
    if (c.memory.messages[index].role == CRIA_USER && ++n_seen > n) break;
  }
  return index;
}

// Forgets messages [first, end); the context is the caller's.
void erase_messages(cria_chat* c, uint32_t first, uint32_t end) {
  const uint32_t from = text_before(*c, first);
  const uint32_t to = text_before(*c, end);
  // An answer that is to be replaced stands behind the others.
  const uint32_t n_all = c->n_messages + (c->replaces ? 1 : 0);
  std::copy(c->memory.text + to, c->memory.text + text_before(*c, n_all), c->memory.text + from);
  c->n_text -= to - from;
  std::copy(c->memory.messages + end, c->memory.messages + n_all, c->memory.messages + first);
  c->n_messages -= end - first;
}

bool append_text(cria_chat* c, const char* text, size_t n_bytes) {
  if (n_bytes > c->max_text_bytes - c->n_text) return false;
  if (n_bytes > 0) std::memcpy(c->memory.text + c->n_text, text, n_bytes);
  c->n_text += static_cast<uint32_t>(n_bytes);
  c->memory.messages[c->n_messages - 1].n_bytes += static_cast<uint32_t>(n_bytes);
  return true;
}

bool add_message(cria_chat* c, uint32_t role, const char* text, size_t n_bytes) {
  if (c->n_messages == c->max_messages || n_bytes > c->max_text_bytes - c->n_text) return false;
  c->memory.messages[c->n_messages++] = {role, 0, 0, 0};
  return append_text(c, text, n_bytes);
}

void drop_last_message(cria_chat* c) {
  c->n_text -= c->memory.messages[--c->n_messages].n_bytes;
  c->n_in_context = std::min(c->n_in_context, c->n_messages);
}

// Encoding ---------------------------------------------------------------------------------------

// Messages [0, n) without those of the first n_left_out exchanges, as the template wants them.
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

// Appends the tokens of messages [first, view.size()) to next.
Status encode(cria_chat* c, cria_workspace* w, std::span<const cria_message> view, size_t first,
              bool opens_turn) {
  size_t n = 0;
  const Status status = from_public(cria_encode_chat(
      w, view.data(), view.size(), first, opens_turn ? CRIA_TURN_OPENED : CRIA_TURN_LATER,
      c->memory.next + c->n_next, c->session->context - c->n_next, &n));
  if (status == Status::kOk) c->n_next += static_cast<uint32_t>(n);
  return status == Status::kBufferTooSmall ? Status::kContextFull : status;
}

// Room -------------------------------------------------------------------------------------------

// Positions that are kept free for an answer.
uint32_t room_for_answer(const cria_chat& c) {
  constexpr uint32_t kUsual = 256;
  const uint32_t context = c.session->context;
  const uint32_t wanted = std::max(context / 8, std::min(context / 4, kUsual));
  return c.max_tokens != 0 ? std::min(c.max_tokens, wanted) : wanted;
}

// Once exchanges have to leave, more of them go, so that this happens rarely.
uint32_t spare_room(const cria_chat& c) { return c.session->context / 4; }

void note_dropped(cria_chat* c, uint32_t n_exchanges) {
  erase_messages(c, has_system(*c) ? 1 : 0, behind_exchanges(*c, n_exchanges));
  c->n_dropped += n_exchanges;
}

// Positions that leave with the first n exchanges: those up to the next message, or all.
uint32_t positions_of(const cria_chat& c, uint32_t n) {
  const uint32_t begin = c.memory.messages[has_system(c) ? 1 : 0].position;
  const uint32_t behind = behind_exchanges(c, n);
  const uint32_t held = c.session->position;
  const uint32_t end = behind < c.n_in_context ? c.memory.messages[behind].position : held;
  return end > begin ? end - begin : 0;
}

// Exchanges whose messages are all in the context: those of next cannot leave it.
uint32_t exchanges_in_context(const cria_chat& c) {
  uint32_t n = 0;
  while (n < n_exchanges(c) && behind_exchanges(c, n + 1) <= c.n_in_context) ++n;
  return n;
}

// Whether exchanges can leave the context without reading the others again.
bool can_drop(const cria_chat& c) {
  const cria_model& model = *c.session->model;
  return !c.rereads && c.n_in_context != 0 &&
         chat_drops_exchanges(model.tokenizer, model.chat_template, has_system(c));
}

// Drops the first n exchanges, which are in the context. The tokens of next stay to be read.
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

// Drops as few of the oldest exchanges as make room for n_tokens, and more of them while that
// leaves less than spare; never the newest one.
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

// Reading everything -----------------------------------------------------------------------------

// Fills next with the messages but those of the first n_left_out exchanges, and what was answered
// so far. kContextFull when they and room do not fit.
Status encode_all(cria_chat* c, cria_workspace* w, uint32_t n_left_out, uint32_t room) {
  const bool is_speaking = c->phase == ChatPhase::kSpeaking;
  // The answer is read as the tokens that were drawn, not as its text.
  const uint32_t n = c->n_messages - (is_speaking ? 1 : 0);
  const uint32_t n_skipped = behind_exchanges(*c, n_left_out) - (has_system(*c) ? 1 : 0);
  const std::span<const cria_message> view = view_of(*c, n_left_out, n);
  // What every conversation begins with stays when its first exchange leaves.
  c->n_next = 0;
  CRIA_TRY(encode(c, w, view.first(0), 0, false));
  uint32_t position = has_system(*c) ? 0 : c->n_next;
  c->n_next = 0;
  for (size_t i = 0; i < view.size(); ++i) {
    const auto index = static_cast<uint32_t>(i) + (i > 0 || !has_system(*c) ? n_skipped : 0);
    c->memory.messages[index].position = position;
    CRIA_TRY(encode(c, w, view.first(i + 1), i, i + 1 == view.size()));
    position = c->n_next;
  }
  if (is_speaking) {
    const uint32_t n_answered = c->session->position - c->answer_position;
    if (!is_room(*c, uint64_t{c->n_next} + n_answered + 1)) return Status::kContextFull;
    const uint32_t* answer = c->session->history + c->answer_position;
    std::copy(answer, answer + n_answered, c->memory.next + c->n_next);
    c->n_next += n_answered;
    c->memory.next[c->n_next++] = c->last_token;
  }
  return is_room(*c, uint64_t{c->n_next} + room) ? Status::kOk : Status::kContextFull;
}

// Keeps of the context what next begins with, and of next what is missing. The newest logits belong
// to the last token, so that next, which is not empty, never becomes empty.
Status keep_common(cria_chat* c) {
  const uint32_t* held = c->session->history;
  const uint32_t most = std::min(c->session->position, c->n_next - 1);
  uint32_t n_kept = 0;
  while (n_kept < most && held[n_kept] == c->memory.next[n_kept]) ++n_kept;
  if (cria_reset(c->session, n_kept) != CRIA_OK) {  // a sliding window's ring has gone on
    n_kept = 0;
    CRIA_TRY(from_public(cria_reset(c->session, 0)));
  }
  std::copy(c->memory.next + n_kept, c->memory.next + c->n_next, c->memory.next);
  c->n_next -= n_kept;
  return Status::kOk;
}

// Leaves out as few of the oldest exchanges as give the wanted room, the newest never; once some
// have to go, more go with them. What is left is to be read again, as far as the context does not
// begin with it.
Status read_again(cria_chat* c, cria_workspace* w, uint32_t wanted) {
  uint32_t n_left_out = 0;
  Status status = encode_all(c, w, 0, wanted);
  if (status == Status::kContextFull) {
    const uint32_t more = wanted + spare_room(*c);
    uint32_t end = n_exchanges(*c) - 1;
    // Every exchange has tokens, so the more are left out, the better the others fit.
    for (uint32_t begin = 1; begin < end;) {
      const uint32_t middle = begin + (end - begin) / 2;
      if (encode_all(c, w, middle, more) == Status::kOk) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
    n_left_out = end;
    status = encode_all(c, w, n_left_out, 1);
  }
  CRIA_TRY(status);
  if (c->n_next == 0) return Status::kNothingToSample;
  if (c->phase == ChatPhase::kSpeaking) {
    const uint32_t n_drawn = c->session->position - c->answer_position + 1;
    c->answer_position = c->n_next - n_drawn;
    c->memory.messages[c->n_messages - 1].position = c->answer_position;
  }
  c->n_in_context = 0;  // until it is read
  CRIA_TRY(keep_common(c));
  if (n_left_out > 0) note_dropped(c, n_left_out);
  return Status::kOk;
}

// Asking -----------------------------------------------------------------------------------------

// Fills next with what follows the messages in the context; kNothingToSample when the newest ones
// give no token.
Status encode_new(cria_chat* c, cria_workspace* w) {
  c->n_next = 0;
  if (!is_room(*c, c->n_pending)) return Status::kContextFull;
  c->n_next = c->n_pending;
  std::copy(c->memory.pending, c->memory.pending + c->n_pending, c->memory.next);
  const std::span<const cria_message> view = view_of(*c, 0, c->n_messages);
  for (uint32_t i = c->n_in_context; i < c->n_messages; ++i) {
    c->memory.messages[i].position = c->session->position + c->n_next;
    CRIA_TRY(encode(c, w, view.first(i + 1), i, i + 1 == c->n_messages));
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
  const uint64_t needed = uint64_t{c->n_next} + room;
  if (c->session->position + needed <= c->session->context) return Status::kOk;
  if (!can_drop(*c)) return read_again(c, w, room);
  const Status dropped = drop_for(c, w, needed, spare_room(*c));
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
  CRIA_TRY(encode(c, w, {c->memory.view, question + 1}, 0, true));
  return is_room(*c, uint64_t{c->n_next} + 1) ? Status::kOk : Status::kContextFull;
}

// Makes memory for a question and an answer, at the cost of the oldest exchanges.
Status make_text_room(cria_chat* c, cria_workspace* w, const char* text, size_t n_bytes) {
  constexpr uint32_t kNewMessages = 2;
  const auto is_full = [&] {
    return c->n_messages + kNewMessages > c->max_messages ||
           n_bytes + c->max_text_bytes / 4 > c->max_text_bytes - c->n_text;
  };
  if (is_full() && n_exchanges(*c) > 0) CRIA_TRY(check_alone(c, w, text, n_bytes));
  while (is_full() && n_exchanges(*c) > 0) {
    c->n_next = 0;
    const bool is_held = can_drop(*c) && exchanges_in_context(*c) > 0;
    if (is_held && drop_exchanges(c, w, 1) == Status::kOk) continue;
    note_dropped(c, 1);
    c->n_in_context = 0;
  }
  return Status::kOk;
}

// Makes the context end before a message of it that is a user's.
void rewind_to(cria_chat* c, uint32_t index) {
  const uint32_t position = c->memory.messages[index].position;
  // What precedes the first question may be read with it.
  const bool is_kept =
      index > (has_system(*c) ? 1U : 0U) && cria_reset(c->session, position) == CRIA_OK;
  c->n_in_context = is_kept ? index : 0;  // else the beginning is found by comparing
  c->n_pending = 0;
  c->answer_position = 0;
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
  if (ends_with_it && is_room(*c, uint64_t{begin} + room_for_answer(*c))) {
    const uint32_t token = c->session->history[begin - 1];
    if (cria_reset(c->session, begin - 1) == CRIA_OK) {
      c->memory.next[0] = token;
      c->n_next = 1;
      c->n_in_context = c->n_messages;
      c->n_pending = 0;
      return Status::kOk;
    }
  }
  rewind_to(c, c->n_messages - 1);
  return plan_reading(c, w);
}

void give_turn(cria_chat* c, cria_turn* turn) {
  c->step_end = c->session->position + c->n_next;
  *turn = {c->session, c->memory.next, c->n_next, nullptr};
}

// Whether what was planned has been read.
bool is_read(const cria_chat& c) { return c.session->position == c.step_end; }

// What was there before the question was asked is there again.
void take_question_back(cria_chat* c) {
  if (c->asks_anew) drop_last_message(c);
  if (!c->replaces) return;
  // The context may end amid what opens the answer.
  if (c->n_in_context == c->n_messages) rewind_to(c, c->n_messages - 1);
  c->n_text += c->memory.messages[c->n_messages++].n_bytes;
  c->replaces = false;
}

// Whether a question gives tokens to read. Where everything is read again for each question, those
// of the other messages say nothing of it.
Status check_is_said(cria_chat* c, cria_workspace* w, const char* text, size_t n_bytes) {
  if (c->has_closing) return Status::kOk;
  c->memory.view[0] = {CRIA_USER, text, n_bytes};
  c->n_next = 0;
  const Status status = encode(c, w, {c->memory.view, 1}, 0, true);
  return status == Status::kOk && c->n_next == 0 ? Status::kNothingToSample : Status::kOk;
}

Status ask(cria_chat* c, cria_workspace* w, const char* text, size_t n_bytes, uint32_t max_tokens,
           cria_turn* turn) {
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

// Answering --------------------------------------------------------------------------------------

// Whether the template writes the newest answer as it was said.
bool stays_as_it_is(const cria_chat& c) {
  constexpr std::string_view kThinkEnd = "</think>";
  const ChatTemplate& chat = c.session->model->chat_template;
  if ((chat.header.flags & format::kChatDropThinking) == 0) return true;
  const uint32_t last = c.n_messages - 1;
  const std::string_view answer(c.memory.text + text_before(c, last),
                                c.memory.messages[last].n_bytes);
  return answer.find(kThinkEnd) == std::string_view::npos;
}

// The answer is over. Its last token, if it was not read, and the template's tokens come before the
// next message.
void finish(cria_chat* c, bool has_unread, cria_chat_end end, cria_chat_piece* piece) {
  c->phase = ChatPhase::kIdle;
  c->n_pending = 0;
  if (has_unread) c->memory.pending[c->n_pending++] = c->last_token;
  std::copy(c->memory.closing, c->memory.closing + c->n_closing, c->memory.pending + c->n_pending);
  c->n_pending += c->n_closing;
  c->n_in_context = c->has_closing && stays_as_it_is(*c) ? c->n_messages : 0;
  piece->is_last = 1;
  piece->end = end;
}

// Adds a token's text to the answer, which begins without space. False when there is no memory for
// it.
bool add_text(cria_chat* c, uint32_t token, cria_chat_piece* piece) {
  size_t n = 0;
  char* out = c->memory.piece + piece->n_bytes;
  static_cast<void>(cria_decode_token(c->session->model, &c->text_state, token, out,
                                      c->piece_bytes - piece->n_bytes, &n));
  const bool is_empty = c->memory.messages[c->n_messages - 1].n_bytes == 0;
  size_t begin = 0;
  if (is_empty) {
    constexpr std::string_view kSpace = " \t\r\n";
    while (begin < n && kSpace.find(out[begin]) != std::string_view::npos) ++begin;
    std::copy(out + begin, out + n, out);
    n -= begin;
  }
  piece->n_bytes += n;
  return append_text(c, out, n);
}

// Plans the reading of a token where the context is full.
Status make_room_while_speaking(cria_chat* c, cria_workspace* w) {
  const uint32_t wanted = c->session->context / 8;
  if (can_drop(*c)) {
    const Status status = drop_for(c, w, wanted, spare_room(*c));
    if (status != Status::kForgotten) return status;
  }
  return read_again(c, w, wanted);
}

Status next(cria_chat* c, cria_workspace* w, const cria_sampling& sampling, cria_chat_piece* piece,
            cria_turn* turn) {
  if (c->phase == ChatPhase::kIdle) return Status::kInvalidArgument;
  *piece = {CRIA_NO_TOKEN, c->memory.piece, 0, 0, CRIA_CHAT_ANSWERED};
  if (c->phase == ChatPhase::kReading) {
    c->n_pending = 0;
    c->replaces = false;
    if (!add_message(c, CRIA_ASSISTANT, nullptr, 0)) return Status::kTextTooLong;
    c->phase = ChatPhase::kSpeaking;
    c->answer_position = c->session->position;
    c->memory.messages[c->n_messages - 1].position = c->answer_position;
    c->text_state = {};
  }
  c->n_in_context = c->n_messages;
  CRIA_TRY(from_public(cria_sample(w, c->session, &sampling, &c->last_token)));
  if (cria_is_end_token(c->session->model, c->last_token) != 0) {
    finish(c, false, CRIA_CHAT_ANSWERED, piece);
    static_cast<void>(add_text(c, CRIA_NO_TOKEN, piece));
    return Status::kOk;
  }
  piece->token = c->last_token;
  ++c->n_answered;
  bool is_full = !add_text(c, c->last_token, piece);
  if (c->max_tokens != 0 && c->n_answered == c->max_tokens) {
    finish(c, true, CRIA_CHAT_LIMIT, piece);
    static_cast<void>(add_text(c, CRIA_NO_TOKEN, piece));
    return Status::kOk;
  }
  c->memory.next[0] = c->last_token;
  c->n_next = 1;
  if (!is_full && c->session->position == c->session->context) {
    const Status status = make_room_while_speaking(c, w);
    if (status != Status::kOk && status != Status::kContextFull) return status;
    is_full = status == Status::kContextFull;
    if (!is_full) c->n_read += c->n_next - 1;
  }
  if (is_full) {
    finish(c, true, CRIA_CHAT_FULL, piece);
    static_cast<void>(add_text(c, CRIA_NO_TOKEN, piece));
    return Status::kOk;
  }
  give_turn(c, turn);
  return Status::kOk;
}

void abandon(cria_chat* c) {
  if (c->phase == ChatPhase::kIdle) return;
  const bool is_speaking = c->phase == ChatPhase::kSpeaking;
  if (is_speaking) drop_last_message(c);
  if (is_speaking || is_read(*c)) {  // the session holds what is no longer said
    c->n_in_context = 0;
    c->n_pending = 0;
  }
  take_question_back(c);
  c->phase = ChatPhase::kIdle;
}

void stop(cria_chat* c) {
  if (c->phase != ChatPhase::kSpeaking) return abandon(c);
  cria_chat_piece ignored = {};
  const bool was_read = is_read(*c);
  const bool is_planned_anew = c->n_next != 1;
  finish(c, !was_read, CRIA_CHAT_STOPPED, &ignored);
  if (is_planned_anew && !was_read) c->n_in_context = 0;
}

// Forgets messages from n on.
Status keep(cria_chat* c, uint32_t n) {
  if (c->phase != ChatPhase::kIdle || n > c->n_messages) return Status::kInvalidArgument;
  // Of a question that loses its answer the context would hold the answer's opening too.
  uint32_t end = n;
  const auto begins_exchange = [c](uint32_t i) {
    return i == c->n_messages || c->memory.messages[i].role == CRIA_USER;
  };
  while (end > 0 && !begins_exchange(end)) --end;
  if (end < c->n_in_context) rewind_to(c, end);
  c->n_text = text_before(*c, n);
  c->n_messages = n;
  return Status::kOk;
}

// One answer from question to end. On an error the conversation is as before.
Status answer(cria_chat* c, cria_workspace* w, const char* text, size_t n_bytes,
              const cria_chat_options& options, cria_chat_result* result) {
  const uint64_t n_read = c->n_read;
  const uint64_t n_dropped = c->n_dropped;
  cria_turn turn;
  cria_chat_piece piece = {};
  CRIA_TRY(ask(c, w, text, n_bytes, options.max_tokens, &turn));
  do {
    Status status = from_public(cria_step(w, &turn, 1));
    const bool is_speaking = c->phase == ChatPhase::kSpeaking;
    if (status == Status::kCancelled && is_speaking) {
      stop(c);
      piece = {CRIA_NO_TOKEN, nullptr, 0, 1, CRIA_CHAT_STOPPED};
      break;
    }
    if (status == Status::kOk) status = next(c, w, options.sampling, &piece, &turn);
    if (status != Status::kOk) {
      abandon(c);
      return status;
    }
    const bool wants_more =
        options.on_text == nullptr ||
        options.on_text(options.context, piece.token, piece.text, piece.n_bytes) == 0;
    if (!wants_more && piece.is_last == 0) {
      stop(c);
      piece.is_last = 1;
      piece.end = CRIA_CHAT_STOPPED;
    }
  } while (piece.is_last == 0);
  *result = {piece.end, c->n_answered, static_cast<uint32_t>(c->n_read - n_read),
             static_cast<uint32_t>(c->n_dropped - n_dropped)};
  return Status::kOk;
}

}  // namespace
}  // namespace cria

using cria::to_public;

extern "C" {

cria_status cria_chat_begin(cria_chat* chat, const char* system, size_t n_bytes) {
  if (chat == nullptr || (system == nullptr && n_bytes != 0)) return CRIA_INVALID_ARGUMENT;
  if (n_bytes > chat->max_text_bytes) return CRIA_TEXT_TOO_LONG;
  chat->n_messages = 0;
  chat->n_text = 0;
  chat->n_in_context = 0;
  chat->n_pending = 0;
  chat->answer_position = 0;
  chat->replaces = false;
  chat->phase = cria::ChatPhase::kIdle;
  if (n_bytes != 0) static_cast<void>(cria::add_message(chat, CRIA_SYSTEM, system, n_bytes));
  return CRIA_OK;
}

cria_status cria_chat_add(cria_chat* chat, cria_role role, const char* text, size_t n_bytes) {
  if (chat == nullptr || (text == nullptr && n_bytes != 0) ||
      (cria::enum_bits(role) != CRIA_USER && cria::enum_bits(role) != CRIA_ASSISTANT) ||
      chat->phase != cria::ChatPhase::kIdle) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::add_message(chat, role, text, n_bytes) ? CRIA_OK : CRIA_TEXT_TOO_LONG;
}

cria_status cria_chat_keep(cria_chat* chat, size_t n_messages) {
  if (chat == nullptr || n_messages > chat->n_messages) return CRIA_INVALID_ARGUMENT;
  return to_public(cria::keep(chat, static_cast<uint32_t>(n_messages)));
}

cria_status cria_chat_ask(cria_chat* chat, cria_workspace* workspace, const char* text,
                          size_t n_bytes, uint32_t max_tokens, cria_turn* turn) {
  if (chat == nullptr || workspace == nullptr || turn == nullptr ||
      (text == nullptr && n_bytes != 0) || workspace->model != chat->session->model) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::ask(chat, workspace, text, n_bytes, max_tokens, turn));
}

cria_status cria_chat_next(cria_chat* chat, cria_workspace* workspace,
                           const cria_sampling* sampling, cria_chat_piece* piece, cria_turn* turn) {
  if (chat == nullptr || workspace == nullptr || sampling == nullptr || piece == nullptr ||
      turn == nullptr || workspace->model != chat->session->model) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::next(chat, workspace, *sampling, piece, turn));
}

void cria_chat_stop(cria_chat* chat) {
  if (chat != nullptr) cria::stop(chat);
}

void cria_chat_abandon(cria_chat* chat) {
  if (chat != nullptr) cria::abandon(chat);
}

cria_status cria_chat_answer(cria_chat* chat, cria_workspace* workspace, const char* text,
                             size_t n_bytes, const cria_chat_options* options,
                             cria_chat_result* result) {
  if (chat == nullptr || workspace == nullptr || (text == nullptr && n_bytes != 0) ||
      options == nullptr || result == nullptr || options->reserved != 0 ||
      workspace->model != chat->session->model) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::answer(chat, workspace, text, n_bytes, *options, result));
}

size_t cria_chat_n_messages(const cria_chat* chat) {
  return chat != nullptr ? chat->n_messages : 0;
}

cria_message cria_chat_message(const cria_chat* chat, size_t i) {
  if (chat == nullptr || i >= chat->n_messages) return {CRIA_SYSTEM, nullptr, 0};
  const auto index = static_cast<uint32_t>(i);
  const cria::StoredMessage& m = chat->memory.messages[index];
  return {static_cast<cria_role>(m.role), chat->memory.text + cria::text_before(*chat, index),
          m.n_bytes};
}

uint64_t cria_chat_n_read(const cria_chat* chat) { return chat != nullptr ? chat->n_read : 0; }

uint64_t cria_chat_n_dropped(const cria_chat* chat) {
  return chat != nullptr ? chat->n_dropped : 0;
}

}  // extern "C"
