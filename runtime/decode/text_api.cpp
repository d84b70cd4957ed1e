// The text functions of cria.h, thin over the tokenizer.
#include <algorithm>

#include "quant/numbers/tile16.h"
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

// Takes arrays from the front of memory.
class Front {
 public:
  explicit Front(std::span<uint8_t> memory) : rest_(memory) {}
  // Null: there is no room, or n is 0.
  template <typename T>
  T* take(size_t n) {
    if (n == 0 || n > rest_.size() / sizeof(T)) return nullptr;
    auto* const first = reinterpret_cast<T*>(rest_.data());
    rest_ = rest_.subspan(std::min(round_up(n * sizeof(T), kScratchAlignment), rest_.size()));
    return first;
  }
  [[nodiscard]] std::span<uint8_t> rest() const { return rest_; }

 private:
  std::span<uint8_t> rest_;
};

bool is_text(const cria_text& text) { return text.text != nullptr || text.n_bytes == 0; }
std::span<const char> span_of(const cria_text& text) { return {text.text, text.n_bytes}; }

// A conversation as the template takes it, at the front of the workspace: the stack may be small.
Status take_parts(const cria_message_parts& parts, Front* memory, ChatParts* converted) {
  if (!is_text(parts.thinking) || !is_text(parts.name) || !is_text(parts.id) ||
      (parts.calls == nullptr && parts.n_calls != 0)) {
    return Status::kInvalidArgument;
  }
  auto* const calls = memory->take<ChatCall>(parts.n_calls);
  if (calls == nullptr && parts.n_calls != 0) return Status::kTextTooLong;
  for (size_t i = 0; i < parts.n_calls; ++i) {
    const cria_call& call = parts.calls[i];
    if (!is_text(call.name) || !is_text(call.arguments) || !is_text(call.id)) {
      return Status::kInvalidArgument;
    }
    calls[i] = {span_of(call.name), span_of(call.arguments), span_of(call.id)};
  }
  *converted = {
      span_of(parts.thinking), {calls, parts.n_calls}, span_of(parts.name), span_of(parts.id)};
  return Status::kOk;
}

Status take_conversation(const cria_workspace& w, const cria_conversation& c,
                         Conversation* conversation, std::span<uint8_t>* rest) {
  Front memory(w.scratch.first(w.encoding_bytes));
  const uint32_t ending = enum_bits(c.ending);
  const uint32_t thinking = enum_bits(c.thinking);
  if ((c.messages == nullptr && c.n_messages != 0) || (c.tools == nullptr && c.n_tools != 0) ||
      ending > CRIA_TURN_LATER || thinking > CRIA_THINKING_OFF) {
    return Status::kInvalidArgument;
  }
  auto* const messages = memory.take<ChatMessage>(c.n_messages);
  auto* const parts = memory.take<ChatParts>(c.parts != nullptr ? c.n_messages : 0);
  auto* const tools = memory.take<std::span<const char>>(c.n_tools);
  if ((messages == nullptr && c.n_messages != 0) || (tools == nullptr && c.n_tools != 0) ||
      (parts == nullptr && c.parts != nullptr && c.n_messages != 0)) {
    return Status::kTextTooLong;
  }
  for (size_t i = 0; i < c.n_messages; ++i) {
    const cria_message& m = c.messages[i];
    const uint32_t role = enum_bits(m.role);
    if (role > CRIA_TOOL || (m.text == nullptr && m.n_bytes != 0)) return Status::kInvalidArgument;
    messages[i] = {static_cast<ChatRole>(role), {m.text, m.n_bytes}, nullptr};
    if (c.parts == nullptr) continue;
    CRIA_TRY(take_parts(c.parts[i], &memory, &parts[i]));
    messages[i].parts = &parts[i];
  }
  for (size_t i = 0; i < c.n_tools; ++i) {
    if (!is_text(c.tools[i])) return Status::kInvalidArgument;
    tools[i] = span_of(c.tools[i]);
  }
  *conversation = {{messages, c.n_messages},
                   static_cast<ChatEnd>(ending),
                   {w.chat_date, w.n_chat_date},
                   {tools, c.n_tools},
                   static_cast<ChatThinking>(thinking)};
  *rest = memory.rest();
  return Status::kOk;
}

Status encode_chat(const cria_workspace& w, const cria_conversation& c, size_t first,
                   std::span<uint32_t> tokens, size_t* n_tokens) {
  Conversation conversation = {};
  std::span<uint8_t> rest;
  CRIA_TRY(take_conversation(w, c, &conversation, &rest));
  return chat_encode(w.model->tokenizer, w.model->chat_template, conversation, first, rest, tokens,
                     n_tokens);
}

// Writes what there is room for, and counts the rest.
class BufferSink : public ChatSink {
 public:
  explicit BufferSink(std::span<char> buffer) : buffer_(buffer) {}
  void put(std::span<const char> text, bool) override {
    if (n_bytes_ + text.size() <= buffer_.size()) {
      std::copy(text.begin(), text.end(), buffer_.data() + n_bytes_);
    }
    n_bytes_ += text.size();
  }
  [[nodiscard]] size_t n_bytes() const { return n_bytes_; }

 private:
  std::span<char> buffer_;
  size_t n_bytes_ = 0;
};

// What put_chat_text writes, or another function of quant/text/chat_text.h.
using PutText = void (*)(const ChatTemplate& chat, const Conversation& c, ChatSink* sink);

Status chat_text(const cria_workspace& w, const cria_conversation& c, PutText put_text,
                 std::span<char> text, size_t* n_bytes) {
  Conversation conversation = {};
  std::span<uint8_t> rest;
  CRIA_TRY(take_conversation(w, c, &conversation, &rest));
  const ChatTemplate& chat = w.model->chat_template;
  if (chat_refusal(chat, conversation) != nullptr) return Status::kRefusedByTemplate;
  BufferSink sink(text);
  put_text(chat, conversation, &sink);
  *n_bytes = sink.n_bytes();
  return *n_bytes > text.size() ? Status::kBufferTooSmall : Status::kOk;
}

cria_status public_chat_text(const cria_workspace* w, const cria_conversation* c, PutText put_text,
                             std::span<char> text, size_t* n_bytes) {
  if (w == nullptr || c == nullptr || n_bytes == nullptr ||
      (text.data() == nullptr && !text.empty())) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!w->model->has_tokenizer) return CRIA_NO_TOKENIZER;
  if (!w->model->has_chat_template) return CRIA_NO_CHAT_TEMPLATE;
  return to_public(chat_text(*w, *c, put_text, text, n_bytes));
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

cria_status cria_encode_chat(cria_workspace* workspace, const cria_conversation* conversation,
                             size_t first, uint32_t* tokens, size_t capacity, size_t* n_tokens) {
  if (workspace == nullptr || conversation == nullptr || n_tokens == nullptr ||
      first > conversation->n_messages || (tokens == nullptr && capacity != 0)) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!workspace->model->has_tokenizer) return CRIA_NO_TOKENIZER;
  if (!workspace->model->has_chat_template) return CRIA_NO_CHAT_TEMPLATE;
  return cria::to_public(
      cria::encode_chat(*workspace, *conversation, first, {tokens, capacity}, n_tokens));
}

cria_status cria_chat_text(cria_workspace* workspace, const cria_conversation* conversation,
                           char* text, size_t capacity, size_t* n_bytes) {
  return cria::public_chat_text(workspace, conversation, &cria::put_chat_text, {text, capacity},
                                n_bytes);
}

cria_status cria_chat_opening(cria_workspace* workspace, const cria_conversation* conversation,
                              char* text, size_t capacity, size_t* n_bytes) {
  if (conversation == nullptr || conversation->ending != CRIA_TURN_OPENED) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::public_chat_text(workspace, conversation, &cria::put_last_joint, {text, capacity},
                                n_bytes);
}

const char* cria_chat_refusal(cria_workspace* workspace, const cria_conversation* conversation) {
  if (workspace == nullptr || conversation == nullptr || !workspace->model->has_chat_template) {
    return nullptr;
  }
  cria::Conversation converted = {};
  std::span<uint8_t> rest;
  const cria::Status status = cria::take_conversation(*workspace, *conversation, &converted, &rest);
  if (status != cria::Status::kOk) return nullptr;
  return cria::chat_refusal(workspace->model->chat_template, converted);
}

const void* cria_call_format(const cria_model* model, size_t* n_bytes) {
  if (n_bytes == nullptr) return nullptr;
  *n_bytes = 0;
  if (model == nullptr || !model->has_chat_template) return nullptr;
  const std::span<const char> stored =
      cria::chat_string(model->chat_template, cria::format::ChatString::kCallFormat);
  *n_bytes = stored.size();
  return stored.empty() ? nullptr : stored.data();
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
