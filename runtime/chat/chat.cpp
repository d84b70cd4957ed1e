// cria_chat: messages to tokens that have to be read, and back.
#include "runtime/chat/chat.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/enum_bits.h"
#include "runtime/chat/chat_ahead.h"
#include "runtime/chat/chat_ask.h"
#include "runtime/chat/chat_context.h"
#include "runtime/chat/chat_messages.h"
#include "runtime/chat/chat_room.h"
#include "runtime/decode/sampler.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

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

// The answer is over. The template's tokens come before the next message.
void finish(cria_chat* c, bool is_cut, cria_chat_end end, cria_chat_piece* piece) {
  c->phase = ChatPhase::kIdle;
  c->memory.messages[c->n_messages - 1].marks |= is_cut ? kAnswered | kCut : kAnswered;
  c->n_in_context = c->n_messages;
  if (c->has_closing && stays_as_it_is(*c)) {
    std::copy(c->memory.closing, c->memory.closing + c->n_closing, c->memory.said + c->n_said);
    c->n_said += c->n_closing;
  } else {
    forget_context(c);
  }
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

// Plans the reading of the token that was drawn last, which said ends with.
void plan_token(cria_chat* c) {
  c->memory.next[0] = c->last_token;
  c->n_next = 1;
  c->stays = all_said(*c);
}

// The same where the context is full. False, and the answer can only end, when no room can be made.
bool plan_with_room(cria_chat* c, cria_workspace* w) {
  const uint32_t wanted = c->session->context / 8;
  const ChatPart part = {c->n_in_context, c->session->position};
  const uint32_t n = can_drop(*c, part) ? n_to_drop(*c, part, wanted, spare_room(*c)) : 0;
  if (n == 0) return read_again(c, w, wanted, true) == Status::kOk;
  if (drop_exchanges(c, w, n) != Status::kOk) return false;
  plan_token(c);
  return true;
}

// The question has been read: what it replaces makes way for the answer.
void begin_answer(cria_chat* c) {
  c->n_hidden = 0;
  commit_plan(c);
  static_cast<void>(add_message(c, CRIA_ASSISTANT, nullptr, 0));  // ask has made room
  c->phase = ChatPhase::kSpeaking;
  c->memory.messages[c->n_messages - 1].position = c->n_said;
  c->n_in_context = c->n_messages;
  c->text_state = {};
}

Status next(cria_chat* c, cria_workspace* w, const cria_sampling& sampling, cria_chat_piece* piece,
            cria_batch_entry* entry) {
  if (c->phase == ChatPhase::kIdle || !is_plan_read(*c)) return Status::kInvalidArgument;
  CRIA_TRY(from_public(cria_sample(w, c->session, &sampling, &c->last_token)));
  *piece = {CRIA_NO_TOKEN, c->memory.piece, 0, 0, CRIA_CHAT_ANSWERED};
  if (c->phase == ChatPhase::kReading) {
    begin_answer(c);
  } else {
    commit_plan(c);
  }
  const auto end = [&](bool is_cut, cria_chat_end why) {
    finish(c, is_cut, why, piece);
    static_cast<void>(add_text(c, CRIA_NO_TOKEN, piece));
    return Status::kOk;
  };
  if (cria_is_end_token(c->session->model, c->last_token) != 0) {
    return end(false, CRIA_CHAT_ANSWERED);
  }
  piece->token = c->last_token;
  ++c->n_answered;
  c->memory.said[c->n_said++] = c->last_token;
  const bool has_text_room = add_text(c, c->last_token, piece);
  if (c->max_tokens != 0 && c->n_answered == c->max_tokens) return end(true, CRIA_CHAT_LIMIT);
  if (!has_text_room) return end(true, CRIA_CHAT_FULL);
  if (c->session->position < c->session->context) {
    plan_token(c);
  } else if (!plan_with_room(c, w)) {
    return end(true, CRIA_CHAT_FULL);
  }
  c->n_read += c->n_next - 1;
  give_entry(c, entry);
  return Status::kOk;
}

// Forgets messages from n on.
void keep_messages(cria_chat* c, uint32_t n) {
  cut_context(c, part_before(*c, n));
  c->n_text = text_before(*c, n);
  c->n_messages = n;
}

void abandon(cria_chat* c) {
  if (c->phase == ChatPhase::kSpeaking) {
    keep_messages(c, c->n_messages - (c->asks_anew ? 2 : 1));
  } else if (c->phase == ChatPhase::kReading) {
    if (!is_plan_read(*c)) c->n_read -= c->n_next;
    take_question_back(c);
  }
  c->phase = ChatPhase::kIdle;
}

void stop(cria_chat* c) {
  if (c->phase != ChatPhase::kSpeaking) return abandon(c);
  const bool was_read = is_plan_read(*c);
  if (was_read) {
    commit_plan(c);
  } else {
    c->n_read -= c->n_next - 1;
  }
  cria_chat_piece ignored = {};
  finish(c, !was_read, CRIA_CHAT_STOPPED, &ignored);
}

Status keep(cria_chat* c, uint32_t n) {
  if (c->phase != ChatPhase::kIdle || n > c->n_messages) return Status::kInvalidArgument;
  const bool takes_ahead_back = n == c->n_messages && n == c->n_in_context;
  keep_messages(c, n);
  if (c->n_in_context == 0) return Status::kOk;
  // Exchanges are dropped from where the answer ends. Where they are read again instead, what
  // closes it stays read: whether a window can come back to before that depends on what was said.
  const uint32_t end =
      takes_ahead_back && !c->rereads ? behind_answer(*c, all_said(*c)) : c->n_said;
  // Where the window of attention has gone on, or blocks have no snapshot, they stay.
  if (n_held(*c, end) == end && can_follow(*c->session, end)) cut(c->session, end);
  return Status::kOk;
}

bool can_answer(const cria_chat* c, const cria_workspace* w, const cria_chat_options* options,
                const cria_chat_result* result) {
  return c != nullptr && w != nullptr && options != nullptr && result != nullptr &&
         options->reserved == 0 && w->model == c->session->model &&
         is_valid_sampling(options->sampling, w->model->scalars().vocab_size);
}

// One answer from question to end. On an error the conversation is as before.
Status answer(cria_chat* c, cria_workspace* w, const Question& question,
              const cria_chat_options& options, cria_chat_result* result) {
  const uint64_t n_read = c->n_read;
  const uint64_t n_dropped = c->n_dropped;
  cria_batch_entry entry;
  cria_chat_piece piece = {};
  CRIA_TRY(ask_question(c, w, question, &entry));
  do {
    Status status = from_public(cria_step(w, &entry, 1));
    const bool is_speaking = c->phase == ChatPhase::kSpeaking;
    if (status == Status::kCancelled && is_speaking) {
      stop(c);
      piece = {CRIA_NO_TOKEN, nullptr, 0, 1, CRIA_CHAT_STOPPED};
      break;
    }
    if (status == Status::kOk) status = next(c, w, options.sampling, &piece, &entry);
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
  chat->n_hidden = 0;
  cria::forget_context(chat);
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
                          size_t n_bytes, uint32_t max_tokens, cria_batch_entry* entry) {
  if (chat == nullptr || workspace == nullptr || entry == nullptr ||
      (text == nullptr && n_bytes != 0) || workspace->model != chat->session->model) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::ask_question(chat, workspace, {text, n_bytes, false, max_tokens}, entry));
}

cria_status cria_chat_next(cria_chat* chat, cria_workspace* workspace,
                           const cria_sampling* sampling, cria_chat_piece* piece,
                           cria_batch_entry* entry) {
  if (chat == nullptr || workspace == nullptr || sampling == nullptr || piece == nullptr ||
      entry == nullptr || workspace->model != chat->session->model) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::next(chat, workspace, *sampling, piece, entry));
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
  if ((text == nullptr && n_bytes != 0) || !cria::can_answer(chat, workspace, options, result)) {
    return CRIA_INVALID_ARGUMENT;
  }
  const cria::Question question = {text, n_bytes, false, options->max_tokens};
  return to_public(cria::answer(chat, workspace, question, *options, result));
}

cria_status cria_chat_answer_instead(cria_chat* chat, cria_workspace* workspace, const char* text,
                                     size_t n_bytes, const cria_chat_options* options,
                                     cria_chat_result* result) {
  if (text == nullptr || !cria::can_answer(chat, workspace, options, result)) {
    return CRIA_INVALID_ARGUMENT;
  }
  const cria::Question question = {text, n_bytes, true, options->max_tokens};
  return to_public(cria::answer(chat, workspace, question, *options, result));
}

cria_status cria_chat_read_ahead(cria_chat* chat, cria_workspace* workspace, uint32_t max_tokens,
                                 uint32_t most_tokens, uint32_t* n_read) {
  if (chat == nullptr || workspace == nullptr || n_read == nullptr ||
      workspace->model != chat->session->model) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::read_ahead(chat, workspace, max_tokens, most_tokens, n_read));
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
