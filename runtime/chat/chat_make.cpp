// What memory a conversation takes, and where its parts lie there.
#include <algorithm>
#include <iterator>
#include <span>

#include "quant/format/align.h"
#include "quant/format/all_zero.h"
#include "runtime/base/arena.h"
#include "runtime/base/enum_bits.h"
#include "runtime/chat/chat.h"
#include "runtime/chat/chat_context.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

constexpr uint32_t kPositionsPerMessage = 8;
constexpr uint32_t kLeastMessages = 16;
constexpr uint32_t kTextBytesOfPosition = 16;
constexpr uint32_t kLeastTextBytes = 8192;
constexpr uint32_t kMostMessages = 1 << 20;
constexpr uint32_t kMostTextBytes = 1 << 30;

// The template's tokens after an answer that no message can change, from the end token on that the
// model says or would have said: it is left out when an answer is stopped, and what follows it
// always is.
Status find_closing(cria_chat* c, cria_workspace* w, cria_thinking thinking) {
  const cria_model& model = *c->session->model;
  c->thinking = thinking;
  c->n_closing = 0;
  c->has_closing = false;
  // What the template changes is read again after every answer.
  if (!chat_keeps_answers(model.tokenizer, model.chat_template,
                          static_cast<ChatThinking>(thinking))) {
    return Status::kOk;
  }
  const cria_message messages[] = {{CRIA_USER, "x", 1}, {CRIA_ASSISTANT, "x", 1}};
  cria_conversation conversation = {};
  conversation.messages = messages;
  conversation.n_messages = std::size(messages);
  conversation.ending = CRIA_TURN_LATER;
  conversation.thinking = thinking;
  size_t n = 0;
  const Status status =
      from_public(cria_encode_chat(w, &conversation, 1, c->memory.closing, kMostClosing, &n));
  // So is what is too long.
  if (status == Status::kBufferTooSmall) return Status::kOk;
  CRIA_TRY(status);
  uint32_t* const end = c->memory.closing + n;
  uint32_t* const found = std::find_if(c->memory.closing, end, [&](uint32_t token) {
    return cria_is_end_token(c->session->model, token) != 0;
  });
  c->n_closing =
      static_cast<uint32_t>(std::copy(found, end, c->memory.closing) - c->memory.closing);
  c->has_closing = true;
  return Status::kOk;
}

// Whether some layers forget what a full context holds.
bool has_short_window(const cria_session& session) {
  for (const format::LayerKind& kind : session.model->config.kinds) {
    if (kind.window != 0 && kind.window <= session.context) return true;
  }
  return false;
}

struct ChatLayout {
  uint64_t messages;
  uint64_t view;
  uint64_t text;
  uint64_t piece;
  uint64_t next;
  uint64_t starts;
  uint64_t said;
  uint64_t closing;
  uint64_t total;
};

struct ChatSizes {
  uint32_t max_messages;
  uint32_t max_text_bytes;
  uint32_t piece_bytes;
};

uint32_t clamped(uint64_t value, uint32_t least, uint32_t most) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(value, least, most));
}

Status find_sizes(const cria_session& session, const cria_chat_config& config, ChatSizes* sizes) {
  constexpr uint32_t kPieces = 2;  // a token's text, and what is left at the end
  if (!session.model->has_tokenizer) return Status::kNoTokenizer;
  if (!session.model->has_chat_template) return Status::kNoChatTemplate;
  const uint64_t context = session.context;
  sizes->max_messages = config.max_messages != 0 ? config.max_messages
                                                 : clamped(context / kPositionsPerMessage,
                                                           kLeastMessages, kMostMessages);
  sizes->max_text_bytes = config.max_text_bytes != 0 ? config.max_text_bytes
                                                     : clamped(context * kTextBytesOfPosition,
                                                               kLeastTextBytes, kMostTextBytes);
  sizes->piece_bytes = kPieces * std::max(uint32_t{CRIA_TEXT_BYTES},
                                          3 * session.model->tokenizer.header.longest_token + 16);
  const bool is_valid = sizes->max_messages >= 3 && sizes->max_messages <= kMostMessages &&
                        sizes->max_text_bytes <= kMostTextBytes && all_zero(config.reserved);
  return is_valid ? Status::kOk : Status::kInvalidArgument;
}

ChatLayout layout_of(const cria_session& session, const ChatSizes& sizes) {
  constexpr uint64_t kMessageView = 32;  // at least sizeof(cria_message) anywhere
  static_assert(sizeof(cria_message) <= kMessageView);
  ChatLayout l = {};
  l.messages = aligned(sizes.max_messages * uint64_t{sizeof(StoredMessage)});
  l.view = aligned(sizes.max_messages * kMessageView);
  l.text = aligned(sizes.max_text_bytes);
  l.piece = aligned(sizes.piece_bytes);
  l.next = aligned(uint64_t{session.context} * sizeof(uint32_t));
  l.starts = aligned(sizes.max_messages * uint64_t{sizeof(uint32_t)});
  l.said = aligned((uint64_t{session.context} + 1 + kMostClosing) * sizeof(uint32_t));
  l.closing = aligned(kMostClosing * sizeof(uint32_t));
  l.total = aligned(kChatObjectBytes) + l.messages + l.view + l.text + l.piece + l.next + l.starts +
            l.said + l.closing;
  return l;
}

Status make(std::span<uint8_t> memory, cria_workspace* w, cria_session* session,
            const cria_chat_config& config, cria_chat** chat) {
  ChatSizes sizes = {};
  CRIA_TRY(find_sizes(*session, config, &sizes));
  const ChatLayout layout = layout_of(*session, sizes);
  if (memory.size() < layout.total) return Status::kMemoryTooSmall;
  Arena arena(memory.data(), static_cast<size_t>(layout.total));
  cria_chat* c = nullptr;
  CRIA_TRY(take(&arena, kChatObjectBytes, &c));
  *c = {};
  c->session = session;
  CRIA_TRY(take(&arena, layout.messages, &c->memory.messages));
  CRIA_TRY(take(&arena, layout.view, &c->memory.view));
  CRIA_TRY(take(&arena, layout.text, &c->memory.text));
  CRIA_TRY(take(&arena, layout.piece, &c->memory.piece));
  CRIA_TRY(take(&arena, layout.next, &c->memory.next));
  CRIA_TRY(take(&arena, layout.starts, &c->memory.starts));
  CRIA_TRY(take(&arena, layout.said, &c->memory.said));
  CRIA_TRY(take(&arena, layout.closing, &c->memory.closing));
  c->max_messages = sizes.max_messages;
  c->max_text_bytes = sizes.max_text_bytes;
  c->piece_bytes = sizes.piece_bytes;
  // What a sliding window has passed cannot be had again with others in sight that have left.
  c->rereads =
      config.exact_context != 0 || has_short_window(*session) || !can_drop(session->model->config);
  CRIA_TRY(find_closing(c, w, CRIA_THINKING_DEFAULT));
  forget_context(c);
  *chat = c;
  return Status::kOk;
}

Status set_thinking(cria_chat* c, cria_workspace* w, cria_thinking thinking) {
  if (c->phase != ChatPhase::kIdle) return Status::kInvalidArgument;
  if (thinking == c->thinking) return Status::kOk;
  const cria_thinking before = c->thinking;
  const Status status = find_closing(c, w, thinking);
  if (status != Status::kOk) {
    static_cast<void>(find_closing(c, w, before));  // as it did before
    return status;
  }
  forget_context(c);
  return Status::kOk;
}

}  // namespace
}  // namespace cria

using cria::to_public;

extern "C" {

cria_status cria_chat_required(const cria_session* session, const cria_chat_config* config,
                               size_t* n_bytes) {
  if (session == nullptr || config == nullptr || n_bytes == nullptr) return CRIA_INVALID_ARGUMENT;
  cria::ChatSizes sizes = {};
  const cria::Status status = cria::find_sizes(*session, *config, &sizes);
  if (status != cria::Status::kOk) return to_public(status);
  const uint64_t total = cria::layout_of(*session, sizes).total;
  if (total > SIZE_MAX) return CRIA_UNSUPPORTED;
  *n_bytes = static_cast<size_t>(total);
  return CRIA_OK;
}

cria_status cria_chat_make(void* memory, size_t n_bytes, cria_workspace* workspace,
                           cria_session* session, const cria_chat_config* config,
                           cria_chat** chat) {
  if (memory == nullptr || workspace == nullptr || session == nullptr || config == nullptr ||
      chat == nullptr || workspace->model != session->model) {
    return CRIA_INVALID_ARGUMENT;
  }
  *chat = nullptr;
  if (!cria::is_aligned(memory)) return CRIA_MISALIGNED;
  return to_public(
      cria::make({static_cast<uint8_t*>(memory), n_bytes}, workspace, session, *config, chat));
}

cria_status cria_chat_set_thinking(cria_chat* chat, cria_workspace* workspace,
                                   cria_thinking thinking) {
  if (chat == nullptr || workspace == nullptr || workspace->model != chat->session->model ||
      cria::enum_bits(thinking) > CRIA_THINKING_OFF) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::set_thinking(chat, workspace, thinking));
}

}  // extern "C"
