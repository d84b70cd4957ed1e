// The text of a conversation, as a stored chat template makes it: what the runtime encodes and what
// the converter compares with the template it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/tokenizer_view.h"

namespace cria {

enum class ChatRole : uint32_t { kSystem = 0, kUser = 1, kAssistant = 2 };
// As templates call them, by role.
inline constexpr const char* kChatRoleNames[] = {"system", "user", "assistant"};

struct ChatMessage {
  ChatRole role;
  std::span<const char> content;
};

// How the text of a conversation ends.
enum class ChatEnd : uint32_t {
  kClosed = 0,  // with its last message
  kOpened = 1,  // with what opens the assistant's turn
  kGoesOn = 2,  // other messages follow, which are not known yet
};

struct Conversation {
  std::span<const ChatMessage> messages;
  ChatEnd end;
  std::span<const char> date;  // empty: the template's own
};

// Why the template cannot be applied to a conversation: static text that reads on from "the chat
// template "; null where it can. With ChatEnd::kGoesOn what only a last message decides is not
// looked at.
[[nodiscard]] const char* chat_refusal(const ChatTemplate& chat, const Conversation& conversation);

// A part of the text. The template's are trusted: special tokens are recognised in them.
struct ChatPiece {
  std::span<const char> text;
  bool is_content;
  bool is_end;  // another message follows, or what ends the conversation
};

// The most pieces between two calls of message_pieces. Dates: a string is cut at each of them.
inline constexpr size_t kMaxMessagePieces = 8;

// Pieces of one message whose dates are not filled in yet.
struct ChatPieces {
  ChatPiece pieces[kMaxMessagePieces];
  size_t n_pieces;
};

// What stands before the first message.
[[nodiscard]] ChatPieces beginning_pieces(const ChatTemplate& chat, const Conversation& c);
// Message index with what stands around it, but for what ends the conversation.
[[nodiscard]] ChatPieces message_pieces(const ChatTemplate& chat, const Conversation& c,
                                        size_t index);
// What ends the conversation.
[[nodiscard]] ChatPieces ending_pieces(const ChatTemplate& chat, const Conversation& c);

// Calls visit(piece) for the parts of a piece, its dates filled in; they are no more trusted than
// contents.
template <typename Visit>
void visit_dated(const ChatTemplate& chat, const Conversation& c, const ChatPiece& piece,
                 const Visit& visit) {
  if (piece.is_content) {
    visit(piece);
    return;
  }
  const auto own = chat_string(chat, format::ChatString::kDate);
  size_t begin = 0;
  for (size_t i = 0; i < piece.text.size(); ++i) {
    if (piece.text[i] != '\0') continue;
    visit(ChatPiece{piece.text.subspan(begin, i - begin), false, false});
    visit(ChatPiece{c.date.empty() ? own : c.date, true, false});
    begin = i + 1;
  }
  visit(ChatPiece{piece.text.subspan(begin), false, piece.is_end});
}

// Calls visit(piece) for every part of the text, in order, dates filled in.
template <typename Visit>
void visit_chat_text(const ChatTemplate& chat, const Conversation& c, const Visit& visit) {
  const auto visit_all = [&](const ChatPieces& pieces) {
    for (size_t i = 0; i < pieces.n_pieces; ++i) visit_dated(chat, c, pieces.pieces[i], visit);
  };
  visit_all(beginning_pieces(chat, c));
  for (size_t i = 0; i < c.messages.size(); ++i) visit_all(message_pieces(chat, c, i));
  visit_all(ending_pieces(chat, c));
}

}  // namespace cria
