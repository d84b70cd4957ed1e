// A conversation as the model was trained to see it. The text of one message and of the template
// around it is put together in the workspace, so that merges cross their borders as they do when
// the template is applied to text; the ranges of the contents are remembered as not trusted.
#include <algorithm>
#include <cstring>

#include "quant/unicode.h"
#include "runtime/text/text_encoder.h"

namespace cria {
namespace {

using format::ChatString;

// A conversation being encoded.
struct ChatEncoder {
  const Tokenizer& tokenizer;
  const AddedTokens& added;
  const ChatTemplate& chat;
  std::span<const ChatMessage> messages;
  std::span<uint8_t> workspace;
  TokenOutput output;
  TextStart start;
};

bool has_flag(const ChatTemplate& chat, uint32_t flag) { return (chat.header.flags & flag) != 0; }

bool is_trimmed(uint32_t code) {
  // The separators that scripting languages count as white space and Unicode's property does not.
  constexpr uint32_t kFileSeparator = 0x1c;
  constexpr uint32_t kUnitSeparator = 0x1f;
  return is_white_space(code) || (code >= kFileSeparator && code <= kUnitSeparator);
}

std::span<const char> trimmed(std::span<const char> text) {
  size_t begin = text.size();
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.data() + i, text.size() - i);
    if (!is_trimmed(c.code)) {
      begin = std::min(begin, i);
      end = i + c.n_bytes;
    }
    i += c.n_bytes;
  }
  return begin < end ? text.subspan(begin, end - begin) : std::span<const char>();
}

// The text of a message with its template text, at the front of the workspace.
struct MessageText {
  std::span<uint8_t> workspace;
  size_t n_bytes;
  bool fits;
  TextRange contents[2];
  size_t n_contents;

  void add(std::span<const char> text) {
    if (text.size() > workspace.size() - n_bytes) {
      fits = false;
      return;
    }
    if (!text.empty()) std::memcpy(workspace.data() + n_bytes, text.data(), text.size());
    n_bytes += text.size();
  }
  void add_content(const ChatTemplate& chat, std::span<const char> text) {
    const size_t begin = n_bytes;
    add(has_flag(chat, format::kChatTrim) ? trimmed(text) : text);
    contents[n_contents++] = {begin, n_bytes};
  }
};

Status encode_message_text(ChatEncoder* e, const MessageText& message) {
  if (!message.fits) return Status::kTextTooLong;
  const size_t aligned =
      (message.n_bytes + alignof(uint32_t) - 1) / alignof(uint32_t) * alignof(uint32_t);
  const std::span<uint8_t> rest = e->workspace.subspan(std::min(aligned, e->workspace.size()));
  const TextToEncode input = {{reinterpret_cast<const char*>(e->workspace.data()), message.n_bytes},
                              {message.contents, message.n_contents},
                              false,
                              e->start};
  bool ends_with_added = e->start == TextStart::kAddedToken;
  CRIA_TRY(encode_text(e->tokenizer, e->added, input, rest, &e->output, &ends_with_added));
  if (message.n_bytes > 0) {
    e->start = ends_with_added ? TextStart::kAddedToken : TextStart::kText;
  }
  return Status::kOk;
}

Status encode_template_text(ChatEncoder* e, ChatString which) {
  MessageText message = {e->workspace, 0, true, {}, 0};
  message.add(chat_string(e->chat, which));
  return encode_message_text(e, message);
}

// The system text that belongs inside the user message at index; false when there is none.
bool folded_system(const ChatEncoder& e, size_t index, std::span<const char>* text) {
  if (!has_flag(e.chat, format::kChatSystemInUser)) return false;
  if (index > 0 && e.messages[index - 1].role == ChatRole::kSystem) {
    *text = e.messages[index - 1].content;
    return true;
  }
  *text = chat_string(e.chat, ChatString::kDefaultSystem);
  return index == 0 && has_flag(e.chat, format::kChatAlwaysSystem);
}

void add_system(const ChatTemplate& chat, std::span<const char> content, MessageText* message) {
  message->add(chat_string(chat, ChatString::kSystemPrefix));
  message->add_content(chat, content);
  message->add(chat_string(chat, ChatString::kSystemSuffix));
}

Status encode_message(ChatEncoder* e, size_t index) {
  const ChatMessage& source = e->messages[index];
  MessageText message = {e->workspace, 0, true, {}, 0};
  switch (source.role) {
    case ChatRole::kSystem:
      if (has_flag(e->chat, format::kChatSystemInUser)) return Status::kOk;
      add_system(e->chat, source.content, &message);
      break;
    case ChatRole::kUser: {
      message.add(chat_string(e->chat, ChatString::kUserPrefix));
      std::span<const char> system;
      if (folded_system(*e, index, &system)) add_system(e->chat, system, &message);
      message.add_content(e->chat, source.content);
      message.add(chat_string(e->chat, ChatString::kUserSuffix));
      break;
    }
    case ChatRole::kAssistant:
      message.add(chat_string(e->chat, ChatString::kAssistantPrefix));
      message.add_content(e->chat, source.content);
      message.add(chat_string(e->chat, ChatString::kAssistantSuffix));
      break;
  }
  return encode_message_text(e, message);
}

Status encode_beginning(ChatEncoder* e) {
  CRIA_TRY(encode_template_text(e, ChatString::kBegin));
  const bool has_system = !e->messages.empty() && e->messages[0].role == ChatRole::kSystem;
  if (has_system || !has_flag(e->chat, format::kChatAlwaysSystem) ||
      has_flag(e->chat, format::kChatSystemInUser)) {
    return Status::kOk;
  }
  MessageText message = {e->workspace, 0, true, {}, 0};
  add_system(e->chat, chat_string(e->chat, ChatString::kDefaultSystem), &message);
  return encode_message_text(e, message);
}

// Finds how the template text that ended the earlier messages leaves off, by encoding it to
// nowhere.
Status resume(ChatEncoder* e, size_t first) {
  const bool folds = has_flag(e->chat, format::kChatSystemInUser);
  ChatString last = ChatString::kBegin;
  for (size_t i = first; i-- > 0;) {
    if (e->messages[i].role == ChatRole::kSystem && folds) continue;
    last = e->messages[i].role == ChatRole::kSystem ? ChatString::kSystemSuffix
           : e->messages[i].role == ChatRole::kUser ? ChatString::kUserSuffix
                                                    : ChatString::kAssistantSuffix;
    e->start = TextStart::kText;
    break;
  }
  e->output.discards = true;
  CRIA_TRY(encode_template_text(e, last));
  e->output.discards = false;
  return Status::kOk;
}

}  // namespace

Status chat_encode(const Tokenizer& tokenizer, const ChatTemplate& chat,
                   std::span<const ChatMessage> messages, size_t first, bool add_generation_prefix,
                   std::span<uint8_t> workspace, std::span<uint32_t> tokens, size_t* n_tokens) {
  if (first > messages.size()) return Status::kInvalidArgument;
  const AddedTokens added(tokenizer);
  ChatEncoder e = {tokenizer,          added, chat, messages, workspace, {tokens, 0, false},
                   TextStart::kNothing};
  if (first == 0) {
    CRIA_TRY(encode_beginning(&e));
  } else {
    CRIA_TRY(resume(&e, first));
  }
  for (size_t i = first; i < messages.size(); ++i) CRIA_TRY(encode_message(&e, i));
  if (add_generation_prefix && !has_flag(chat, format::kChatOpenTurnEmpty)) {
    CRIA_TRY(encode_template_text(&e, ChatString::kAssistantPrefix));
  }
  *n_tokens = e.output.n_tokens;
  return Status::kOk;
}

}  // namespace cria
