#include "runtime/chat/chat_room.h"

#include <algorithm>

#include "runtime/chat/chat_context.h"
#include "runtime/chat/chat_messages.h"
#include "runtime/decode/slots.h"
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
  cria_conversation conversation = {};
  conversation.messages = view.data();
  conversation.n_messages = view.size();
  conversation.ending = opens_turn ? CRIA_TURN_OPENED : CRIA_TURN_LATER;
  conversation.thinking = c->thinking;
  const Status status = from_public(cria_encode_chat(
      w, &conversation, first, c->memory.next + c->n_next, c->session->context - c->n_next, &n));
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

uint32_t exchanges_in(const cria_chat& c, ChatPart part) {
  uint32_t n = 0;
  while (n < n_exchanges(c) && behind_exchanges(c, n + 1) <= part.n_messages) ++n;
  return n;
}

bool drops_exchanges(const cria_chat& c, ChatPart part) {
  const cria_model& model = *c.session->model;
  return !c.rereads && part.n_messages != 0 &&
         chat_drops_exchanges(model.tokenizer, model.chat_template,
                              static_cast<ChatThinking>(c.thinking), has_system(c));
}

bool can_drop(const cria_chat& c, ChatPart part) {
  // What was forgotten of it cannot be read with the others in sight any more.
  return drops_exchanges(c, part) &&
         (c.phase == ChatPhase::kSpeaking || n_held(c, part.n_tokens) >= behind_answer(c, part));
}

namespace {

// Tokens of a part that leave with the first n exchanges: those up to the next message, or all.
uint32_t tokens_of(const cria_chat& c, ChatPart part, uint32_t n) {
  const uint32_t begin = c.memory.messages[has_system(c) ? 1 : 0].position;
  const uint32_t behind = behind_exchanges(c, n);
  const uint32_t end =
      behind < part.n_messages ? c.memory.messages[behind].position : part.n_tokens;
  return end > begin ? end - begin : 0;
}

}  // namespace

Status drop_exchanges(cria_chat* c, cria_workspace* w, uint32_t n) {
  const uint32_t first = has_system(*c) ? 1 : 0;
  const uint32_t begin = c->memory.messages[first].position;
  const uint32_t n_tokens = tokens_of(*c, all_said(*c), n);
  if (c->phase != ChatPhase::kSpeaking) end_session(c, behind_answer(*c, all_said(*c)));
  const uint32_t n_read = std::min(begin + n_tokens, c->session->position) - begin;
  CRIA_TRY(from_public(cria_drop(w, c->session, begin, n_read)));
  std::copy(c->memory.said + begin + n_tokens, c->memory.said + c->n_said, c->memory.said + begin);
  c->n_said -= n_tokens;
  const uint32_t n_leaving = behind_exchanges(*c, n) - first;
  c->n_in_context -= std::min(n_leaving, c->n_in_context - first);
  note_dropped(c, n);
  const bool is_moved = c->session->first_moved < c->session->position;
  for (uint32_t i = first; i < c->n_messages + c->n_hidden; ++i) {
    c->memory.messages[i].position -= std::min(c->memory.messages[i].position, n_tokens);
    c->memory.starts[i] -= std::min(c->memory.starts[i], n_tokens);
    if (is_moved) c->memory.messages[i].marks |= kMoved;
  }
  // What every conversation begins with is found again by comparing.
  if (c->n_in_context <= first) forget_context(c);
  return Status::kOk;
}

uint32_t n_to_drop(const cria_chat& c, ChatPart part, uint64_t n_tokens, uint32_t spare) {
  const uint32_t most = std::min(n_exchanges(c) - 1, exchanges_in(c, part));
  const uint64_t context = c.session->context;
  const auto is_enough = [&](uint32_t n, uint32_t more) {
    return part.n_tokens - tokens_of(c, part, n) + n_tokens + more <= context;
  };
  uint32_t n = 1;
  while (n < most && !is_enough(n, spare)) ++n;
  return n <= most && is_enough(n, 0) ? n : 0;
}

namespace {

// Fills next with the messages but those of the first n_left_out exchanges, and what was answered
// so far. kContextFull when they and room do not fit. A turn is opened after them unless later
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
  c->n_lead = position;
  for (size_t i = 0; i < view.size(); ++i) {
    const auto index = static_cast<uint32_t>(i) + (i > 0 || !has_system(*c) ? n_skipped : 0);
    c->memory.starts[index] = position;
    CRIA_TRY(encode_messages(c, w, view.first(i + 1), i, opens_turn && i + 1 == view.size()));
    position = c->n_next;
    if (i == 0 && has_system(*c)) c->n_lead = position;
  }
  if (is_speaking) {
    const uint32_t begin = c->memory.messages[n].position;
    if (!has_room(*c, uint64_t{c->n_next} + c->n_said - begin)) return Status::kContextFull;
    c->memory.starts[n] = c->n_next;
    std::copy(c->memory.said + begin, c->memory.said + c->n_said, c->memory.next + c->n_next);
    c->n_next += c->n_said - begin;
  }
  return has_room(*c, uint64_t{c->n_next} + room) ? Status::kOk : Status::kContextFull;
}

// Fills next with what is to be read again, as read_again says: everything where that leaves least,
// else what leaves more.
Status encode_what_fits(cria_chat* c, cria_workspace* w, bool opens_turn, bool was_full,
                        uint32_t least, uint32_t more, uint32_t* n_left_out) {
  *n_left_out = 0;
  if (!was_full) {
    const Status status = encode_all(c, w, opens_turn, 0, least);
    if (status != Status::kContextFull) return status;
  }
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

Status encode_for_later(cria_chat* c, cria_workspace* w, uint32_t wanted, uint32_t n_question,
                        bool was_full) {
  if (c->n_messages == 0) {
    c->n_next = 0;
    const Status status = encode_messages(c, w, view_of(*c, 0, 0), 0, false);
    c->n_lead = c->n_next;
    return status;
  }
  uint32_t n_left_out = 0;
  const uint32_t more = wanted + spare_room(*c) + n_question;
  return encode_what_fits(c, w, false, was_full, wanted + 1, more, &n_left_out);
}

void keep_common(cria_chat* c, uint32_t most) {
  const uint32_t* const held = c->session->history;
  most = std::min({most, c->n_next, c->session->position, c->session->first_moved});
  end_session(c,
              static_cast<uint32_t>(std::mismatch(held, held + most, c->memory.next).first - held));
  const uint32_t n_kept = c->session->position;
  std::copy(c->memory.next + n_kept, c->memory.next + c->n_next, c->memory.next);
  c->n_next -= n_kept;
  // It stays when exchanges leave, and is not read again then.
  static_cast<void>(keep_snapshot(c->session, c->n_lead));
}

Status read_again(cria_chat* c, cria_workspace* w, uint32_t wanted, bool was_full) {
  uint32_t n_left_out = 0;
  CRIA_TRY(encode_what_fits(c, w, true, was_full, wanted, wanted + spare_room(*c), &n_left_out));
  if (c->n_next == 0) return Status::kNothingToSample;
  // The newest logits belong to the last token, so that next never becomes empty.
  keep_common(c, c->n_next - 1);
  c->stays = {0, 0};
  c->rereads_all = true;
  c->n_left_out = n_left_out;
  return Status::kOk;
}

}  // namespace cria
