#include "quant/chat_text.h"

#include <algorithm>
#include <string_view>

#include "quant/unicode.h"
#include "quant/utf8.h"

namespace cria {
namespace {

using format::ChatString;
using format::ChatTrim;
using format::ChatTrimPlace;
using Text = std::span<const char>;

constexpr std::string_view kThinkEnd = "</think>";

bool has_flag(const ChatTemplate& chat, uint32_t flag) { return (chat.header.flags & flag) != 0; }

std::string_view view_of(Text text) { return {text.data(), text.size()}; }

bool is_trimmed(uint32_t code, ChatTrim trim) {
  return trim == ChatTrim::kSpace ? is_stripped(code) : trim == ChatTrim::kNewlines && code == '\n';
}

Text trimmed(Text text, ChatTrim left, ChatTrim right) {
  size_t begin = text.size();
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.data() + i, text.size() - i);
    if (!is_trimmed(c.code, left)) begin = std::min(begin, i);
    i += c.n_bytes;
    if (!is_trimmed(c.code, right)) end = i;
  }
  return begin < end ? text.subspan(begin, end - begin) : Text();
}

ChatTrim trim_at(const ChatTemplate& chat, ChatTrimPlace place) {
  return static_cast<ChatTrim>((chat.header.trims >> static_cast<uint32_t>(place)) &
                               format::kChatTrimMask);
}

Text trimmed_at(const ChatTemplate& chat, Text text, ChatTrimPlace left, ChatTrimPlace right) {
  return trimmed(text, trim_at(chat, left), trim_at(chat, right));
}

bool is_blank(Text text) { return trimmed(text, ChatTrim::kSpace, ChatTrim::kSpace).empty(); }

// Whether text has one of the texts of list in it, which each end with a zero byte.
bool has_any(Text text, Text list) {
  while (!list.empty()) {
    const size_t n = std::min(view_of(list).find('\0'), list.size());
    if (n > 0 && view_of(text).find(view_of(list.first(n))) != std::string_view::npos) return true;
    list = list.subspan(std::min(n + 1, list.size()));
  }
  return false;
}

bool is_role(const Conversation& c, size_t index, ChatRole role) {
  return index < c.messages.size() && c.messages[index].role == role;
}

bool is_last(const Conversation& c, size_t index) {
  return index + 1 == c.messages.size() && c.end != ChatEnd::kGoesOn;
}

bool is_inside(const ChatTemplate& chat) {
  return has_flag(chat, format::kChatSystemInUser | format::kChatSystemInLast);
}

void add(ChatPieces* pieces, const ChatTemplate& chat, ChatString which) {
  const Text text = chat_string(chat, which);
  if (!text.empty()) pieces->pieces[pieces->n_pieces++] = {text, false, false};
}

// The last string of a message.
ChatPieces ended(ChatPieces pieces, const ChatTemplate& chat, ChatString which) {
  add(&pieces, chat, which);
  if (pieces.n_pieces > 0 && !pieces.pieces[pieces.n_pieces - 1].is_content) {
    pieces.pieces[pieces.n_pieces - 1].is_end = true;
  }
  return pieces;
}

void add_content(ChatPieces* pieces, Text text) {
  pieces->pieces[pieces->n_pieces++] = {text, true, false};
}

Text trimmed_system(const ChatTemplate& chat, Text content) {
  return trimmed_at(chat, content, ChatTrimPlace::kSystemLeft, ChatTrimPlace::kSystemRight);
}

// Whether the system text stands inside the user's message at index.
bool takes_system(const ChatTemplate& chat, const Conversation& c, size_t index) {
  if (has_flag(chat, format::kChatSystemInLast)) return is_last(c, index);
  return has_flag(chat, format::kChatSystemInUser) &&
         index == (is_role(c, 0, ChatRole::kSystem) ? 1 : 0);
}

// Trims pieces [first, n) as the one text that they are.
void trim_together(ChatPieces* pieces, size_t first, ChatTrim left, ChatTrim right) {
  for (size_t i = first; i < pieces->n_pieces; ++i) {
    Text& text = pieces->pieces[i].text;
    text = trimmed(text, left, ChatTrim::kNothing);
    if (!text.empty()) break;
  }
  for (size_t i = pieces->n_pieces; i-- > first;) {
    Text& text = pieces->pieces[i].text;
    text = trimmed(text, ChatTrim::kNothing, right);
    if (!text.empty()) break;
  }
}

ChatPieces user_pieces(const ChatTemplate& chat, const Conversation& c, size_t index) {
  ChatPieces pieces = {};
  add(&pieces, chat, ChatString::kUserPrefix);
  const size_t inside = pieces.n_pieces;
  if (takes_system(chat, c, index)) {
    if (is_role(c, 0, ChatRole::kSystem)) {
      add(&pieces, chat, ChatString::kSystemPrefix);
      add_content(&pieces, trimmed_system(chat, c.messages[0].content));
      add(&pieces, chat, ChatString::kSystemSuffix);
    } else {
      add(&pieces, chat, ChatString::kNoSystem);
    }
  }
  const ChatTrim left = trim_at(chat, ChatTrimPlace::kUserLeft);
  const ChatTrim right = trim_at(chat, ChatTrimPlace::kUserRight);
  const Text content = c.messages[index].content;
  if (has_flag(chat, format::kChatTrimTogether)) {
    add_content(&pieces, content);
    trim_together(&pieces, inside, left, right);
  } else {
    add_content(&pieces, trimmed(content, left, right));
  }
  return ended(pieces, chat, ChatString::kUserSuffix);
}

// An answer without the thinking before it.
Text without_thinking(const ChatTemplate& chat, Text content) {
  const size_t at = view_of(content).rfind(kThinkEnd);
  if (at == std::string_view::npos) return content;
  const Text rest = content.subspan(at + kThinkEnd.size());
  const bool drops = has_flag(chat, format::kChatDropNewlines);
  return trimmed(rest, drops ? ChatTrim::kNewlines : ChatTrim::kNothing, ChatTrim::kNothing);
}

ChatPieces assistant_pieces(const ChatTemplate& chat, const Conversation& c, size_t index) {
  ChatPieces pieces = {};
  const bool last = is_last(c, index);
  Text content = c.messages[index].content;
  if (has_flag(chat, format::kChatDropThinking)) content = without_thinking(chat, content);
  add(&pieces, chat, last ? ChatString::kLastAssistantPrefix : ChatString::kAssistantPrefix);
  add_content(&pieces, last ? trimmed_at(chat, content, ChatTrimPlace::kLastAssistantLeft,
                                         ChatTrimPlace::kLastAssistantRight)
                            : trimmed_at(chat, content, ChatTrimPlace::kAssistantLeft,
                                         ChatTrimPlace::kAssistantRight));
  return ended(pieces, chat,
               last ? ChatString::kLastAssistantSuffix : ChatString::kAssistantSuffix);
}

// What the template says of one message.
struct RoleRules {
  ChatString not_in;
  uint32_t no_blank;
  const char* has_text;
  const char* is_blank;
};

constexpr RoleRules kRoleRules[] = {
    {ChatString::kNotInSystem, format::kChatNoBlankSystem,
     "takes no system text with one of its own control words",
     "takes no system text without a visible character"},
    {ChatString::kNotInUser, format::kChatNoBlankUser,
     "takes no user's text with one of its own control words",
     "takes no user's text without a visible character"},
    {ChatString::kNotInAssistant, format::kChatNoBlankAssistant,
     "takes no assistant's text with one of its own control words",
     "takes no assistant's text without a visible character"},
};

const char* content_refusal(const ChatTemplate& chat, const ChatMessage& message) {
  const RoleRules& rules = kRoleRules[static_cast<uint32_t>(message.role)];
  if (has_flag(chat, rules.no_blank) && is_blank(message.content)) return rules.is_blank;
  return has_any(message.content, chat_string(chat, rules.not_in)) ? rules.has_text : nullptr;
}

const char* order_refusal(const ChatTemplate& chat, const Conversation& c) {
  const bool has_first = is_role(c, 0, ChatRole::kSystem);
  for (size_t i = 0; i < c.messages.size(); ++i) {
    const ChatRole role = c.messages[i].role;
    if (role == ChatRole::kSystem) {
      if (has_flag(chat, format::kChatNoSystem)) return "has no place for a system text";
      if (i > 0 && has_flag(chat, format::kChatOnlyFirstSystem)) {
        return "takes a system text as the first message only";
      }
    } else if (has_flag(chat, format::kChatAlternates)) {
      const size_t turn = i - (has_first ? 1 : 0);
      if (role != (turn % 2 == 0 ? ChatRole::kUser : ChatRole::kAssistant)) {
        return "takes messages of user and assistant in turns only, the user's first";
      }
    }
  }
  const bool is_lonely = has_first && c.messages.size() > 1 && !is_role(c, 1, ChatRole::kUser);
  if (is_lonely && has_flag(chat, format::kChatSystemInUser)) {
    return "takes a system text before a user's message only";
  }
  return nullptr;
}

const char* ending_refusal(const ChatTemplate& chat, const Conversation& c) {
  const size_t n = c.messages.size();
  if (n == 0) return "needs a message";
  const bool has_user = std::any_of(c.messages.begin(), c.messages.end(),
                                    [](const ChatMessage& m) { return m.role == ChatRole::kUser; });
  if (!has_user && has_flag(chat, format::kChatNeedsUser)) return "needs a user's message";
  if (n > 0 && is_role(c, n - 1, ChatRole::kSystem) &&
      (is_inside(chat) || has_flag(chat, format::kChatNotLastSystem))) {
    return "takes no system text as the last message";
  }
  if (n > 0 && is_role(c, n - 1, ChatRole::kAssistant)) {
    if (has_flag(chat, format::kChatNotLastAssistant)) {
      return "takes no assistant's text as the last message";
    }
    if (c.end == ChatEnd::kOpened && has_flag(chat, format::kChatNoTurnAfterAssistant)) {
      return "opens no turn behind an assistant's message";
    }
    if (has_flag(chat, format::kChatDropThinking) &&
        view_of(c.messages[n - 1].content).find(kThinkEnd) != std::string_view::npos) {
      return "takes no thinking in an assistant's text that is the last message";
    }
  }
  return nullptr;
}

}  // namespace

const char* chat_refusal(const ChatTemplate& chat, const Conversation& c) {
  if (const char* reason = order_refusal(chat, c)) return reason;
  for (const ChatMessage& message : c.messages) {
    if (const char* reason = content_refusal(chat, message)) return reason;
  }
  return c.end == ChatEnd::kGoesOn ? nullptr : ending_refusal(chat, c);
}

ChatPieces beginning_pieces(const ChatTemplate& chat, const Conversation& c) {
  ChatPieces pieces = {};
  const bool has_system = !is_inside(chat) && is_role(c, 0, ChatRole::kSystem);
  if (is_inside(chat)) return ended(pieces, chat, ChatString::kBegin);
  add(&pieces, chat, ChatString::kBegin);
  return has_system ? pieces : ended(pieces, chat, ChatString::kNoSystem);
}

ChatPieces message_pieces(const ChatTemplate& chat, const Conversation& c, size_t index) {
  switch (c.messages[index].role) {
    case ChatRole::kSystem:
      break;
    case ChatRole::kUser:
      return user_pieces(chat, c, index);
    case ChatRole::kAssistant:
      return assistant_pieces(chat, c, index);
  }
  ChatPieces pieces = {};
  const bool is_first = index == 0;
  if (is_first && is_inside(chat)) return pieces;
  add(&pieces, chat, is_first ? ChatString::kSystemPrefix : ChatString::kLaterSystemPrefix);
  add_content(&pieces, trimmed_system(chat, c.messages[index].content));
  return ended(pieces, chat, is_first ? ChatString::kSystemSuffix : ChatString::kLaterSystemSuffix);
}

ChatPieces ending_pieces(const ChatTemplate& chat, const Conversation& c) {
  ChatPieces pieces = {};
  if (c.end == ChatEnd::kGoesOn) return pieces;
  const size_t n = c.messages.size();
  const bool after_assistant = n > 0 && is_role(c, n - 1, ChatRole::kAssistant);
  add(&pieces, chat,
      c.end == ChatEnd::kClosed ? ChatString::kEnd
      : after_assistant         ? ChatString::kTurnAfterAssistant
                                : ChatString::kTurn);
  return pieces;
}

}  // namespace cria
