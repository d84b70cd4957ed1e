// The text functions of cria.h, thin over the tokenizer.
#include <algorithm>

#include "quant/tile16.h"
#include "runtime/base/enum_bits.h"
#include "runtime/decode/workspace.h"
#include "runtime/text/tokenizer.h"

namespace cria {
namespace {

constexpr size_t kScratchAlignment = 8;

Status decode_token(const cria_model& m, cria_text_state* state, uint32_t token, char* text,
                    size_t capacity, size_t* n_bytes) {
  constexpr size_t kSlackBytes = 8;
  DecodeState decode = {};
  std::copy(state->pending, state->pending + sizeof decode.pending, decode.pending);
  decode.n_pending = state->n_pending;
  decode.started = state->started;
  // The state is the caller's memory: it might not be ours.
  if (decode.n_pending > sizeof decode.pending || state->reserved != 0) {
    return Status::kInvalidArgument;
  }
  if (token == format::kNone) {
    if (capacity < kSlackBytes) return Status::kBufferTooSmall;
    *n_bytes = tokenizer_decode_end(&decode, {text, capacity});
  } else {
    if (token >= m.scalars().vocab_size) return Status::kInvalidArgument;
    if (capacity < size_t{m.tokenizer.header.longest_token} * 3 + kSlackBytes) {
      return Status::kBufferTooSmall;
    }
    *n_bytes =
        tokenizer_decode(m.tokenizer, token, state->show_special != 0, &decode, {text, capacity});
  }
  std::copy(decode.pending, decode.pending + sizeof decode.pending, state->pending);
  state->n_pending = decode.n_pending;
  state->started = decode.started;
  return Status::kOk;
}

bool has_token(const cria_model* model, uint32_t token) {
  return model != nullptr && model->has_tokenizer && token < model->tokenizer.header.n_tokens;
}

// The messages as the template takes them, at the front of the workspace: the stack may be small.
Status take_conversation(const cria_workspace& w, std::span<const cria_message> messages,
                         int ending, Conversation* conversation, std::span<uint8_t>* rest) {
  const std::span<uint8_t> memory = w.scratch.first(w.encoding_bytes);
  if (ending < CRIA_TURN_CLOSED || ending > CRIA_TURN_LATER) return Status::kInvalidArgument;
  if (messages.size() > memory.size() / (2 * sizeof(ChatMessage))) return Status::kTextTooLong;
  auto* converted = reinterpret_cast<ChatMessage*>(memory.data());
  for (size_t i = 0; i < messages.size(); ++i) {
    const cria_message& m = messages[i];
    const uint32_t role = enum_bits(m.role);
    if (role > CRIA_ASSISTANT || (m.text == nullptr && m.n_bytes != 0)) {
      return Status::kInvalidArgument;
    }
    converted[i] = {static_cast<ChatRole>(role), {m.text, m.n_bytes}};
  }
  *conversation = {
      {converted, messages.size()}, static_cast<ChatEnd>(ending), {w.chat_date, w.n_chat_date}};
  *rest = memory.subspan(round_up(messages.size() * sizeof(ChatMessage), kScratchAlignment));
  return Status::kOk;
}

Status encode_chat(const cria_workspace& w, std::span<const cria_message> messages, size_t first,
                   int ending, std::span<uint32_t> tokens, size_t* n_tokens) {
  Conversation conversation = {};
  std::span<uint8_t> rest;
  CRIA_TRY(take_conversation(w, messages, ending, &conversation, &rest));
  return chat_encode(w.model->tokenizer, w.model->chat_template, conversation, first, rest, tokens,
                     n_tokens);
}

Status chat_text(const cria_workspace& w, std::span<const cria_message> messages, int ending,
                 std::span<char> text, size_t* n_bytes) {
  Conversation conversation = {};
  std::span<uint8_t> rest;
  CRIA_TRY(take_conversation(w, messages, ending, &conversation, &rest));
  const ChatTemplate& chat = w.model->chat_template;
  if (chat_refusal(chat, conversation) != nullptr) return Status::kRefusedByTemplate;
  *n_bytes = 0;
  visit_chat_text(chat, conversation, [&](const ChatPiece& piece) {
    const size_t n_before = *n_bytes;
    *n_bytes += piece.text.size();
    if (*n_bytes > text.size()) return;
    std::copy(piece.text.begin(), piece.text.end(), text.data() + n_before);
  });
  return *n_bytes > text.size() ? Status::kBufferTooSmall : Status::kOk;
}

}  // namespace
}  // namespace cria

extern "C" {

cria_status cria_encode(cria_workspace* workspace, const char* text, size_t n_bytes, uint32_t flags,
                        uint32_t* tokens, size_t capacity, size_t* n_tokens) {
  constexpr uint32_t kKnown = CRIA_ENCODE_SPECIAL | CRIA_ENCODE_PARSE | CRIA_ENCODE_CONTINUES;
  if (workspace == nullptr || (text == nullptr && n_bytes != 0) || n_tokens == nullptr ||
      (tokens == nullptr && capacity != 0) || (flags & ~kKnown) != 0) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!workspace->model->has_tokenizer) return CRIA_NO_TOKENIZER;
  const cria::EncodeOptions options = {(flags & CRIA_ENCODE_SPECIAL) != 0,
                                       (flags & CRIA_ENCODE_PARSE) != 0,
                                       (flags & CRIA_ENCODE_CONTINUES) != 0};
  return cria::to_public(cria::tokenizer_encode(
      workspace->model->tokenizer, {text, n_bytes}, options,
      workspace->scratch.first(workspace->encoding_bytes), {tokens, capacity}, n_tokens));
}

cria_status cria_decode_token(const cria_model* model, cria_text_state* state, uint32_t token,
                              char* text, size_t capacity, size_t* n_bytes) {
  if (model == nullptr || state == nullptr || text == nullptr || n_bytes == nullptr) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!model->has_tokenizer) return CRIA_NO_TOKENIZER;
  return cria::to_public(cria::decode_token(*model, state, token, text, capacity, n_bytes));
}

const char* cria_token_text(const cria_model* model, uint32_t token, size_t* n_bytes) {
  if (n_bytes == nullptr) return nullptr;
  *n_bytes = 0;
  if (!cria::has_token(model, token)) return nullptr;
  const std::span<const char> text = cria::token_text(model->tokenizer, token);
  *n_bytes = text.size();
  return text.data();
}

size_t cria_longest_token_bytes(const cria_model* model) {
  return model != nullptr && model->has_tokenizer ? model->tokenizer.header.longest_token : 0;
}

int cria_token_is_special(const cria_model* model, uint32_t token) {
  return cria::has_token(model, token) && cria::is_special(model->tokenizer, token) ? 1 : 0;
}

uint32_t cria_find_special(const cria_model* model, const char* text, size_t n_bytes) {
  if (text == nullptr) return CRIA_NO_TOKEN;
  for (uint32_t token = 0; cria::has_token(model, token); ++token) {
    const std::span<const char> found = cria::token_text(model->tokenizer, token);
    if (found.size() == n_bytes && cria::is_special(model->tokenizer, token) &&
        std::equal(found.begin(), found.end(), text)) {
      return token;
    }
  }
  return CRIA_NO_TOKEN;
}

cria_status cria_encode_chat(cria_workspace* workspace, const cria_message* messages,
                             size_t n_messages, size_t first, int ending, uint32_t* tokens,
                             size_t capacity, size_t* n_tokens) {
  if (workspace == nullptr || messages == nullptr || n_tokens == nullptr || first > n_messages ||
      (tokens == nullptr && capacity != 0)) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!workspace->model->has_tokenizer) return CRIA_NO_TOKENIZER;
  if (!workspace->model->has_chat_template) return CRIA_NO_CHAT_TEMPLATE;
  return cria::to_public(cria::encode_chat(*workspace, {messages, n_messages}, first, ending,
                                           {tokens, capacity}, n_tokens));
}

cria_status cria_chat_text(cria_workspace* workspace, const cria_message* messages,
                           size_t n_messages, int ending, char* text, size_t capacity,
                           size_t* n_bytes) {
  if (workspace == nullptr || messages == nullptr || n_bytes == nullptr ||
      (text == nullptr && capacity != 0)) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!workspace->model->has_tokenizer) return CRIA_NO_TOKENIZER;
  if (!workspace->model->has_chat_template) return CRIA_NO_CHAT_TEMPLATE;
  return cria::to_public(
      cria::chat_text(*workspace, {messages, n_messages}, ending, {text, capacity}, n_bytes));
}

const char* cria_chat_refusal(cria_workspace* workspace, const cria_message* messages,
                              size_t n_messages, int ending) {
  if (workspace == nullptr || messages == nullptr || !workspace->model->has_chat_template) {
    return nullptr;
  }
  cria::Conversation conversation = {};
  std::span<uint8_t> rest;
  const cria::Status status =
      cria::take_conversation(*workspace, {messages, n_messages}, ending, &conversation, &rest);
  if (status != cria::Status::kOk) return nullptr;
  return cria::chat_refusal(workspace->model->chat_template, conversation);
}

const char* cria_chat_date_format(const cria_model* model, size_t* n_bytes) {
  if (n_bytes == nullptr) return nullptr;
  *n_bytes = 0;
  if (model == nullptr || !model->has_chat_template) return nullptr;
  const std::span<const char> format =
      cria::chat_string(model->chat_template, cria::format::ChatString::kDateFormat);
  *n_bytes = format.size();
  return format.empty() ? nullptr : format.data();
}

cria_status cria_set_chat_date(cria_workspace* workspace, const char* date, size_t n_bytes) {
  if (workspace == nullptr || (date == nullptr && n_bytes != 0)) return CRIA_INVALID_ARGUMENT;
  if (n_bytes > sizeof workspace->chat_date) return CRIA_TEXT_TOO_LONG;
  std::copy(date, date + n_bytes, workspace->chat_date);
  workspace->n_chat_date = static_cast<uint32_t>(n_bytes);
  return CRIA_OK;
}

}  // extern "C"
