#include "converter/stored_template.h"

#include <vector>

namespace cria::converter {

using format::ChatString;

ChatTemplate StoredTemplate::view() const {
  ChatTemplate chat = {};
  chat.header.flags = flags;
  chat.header.trims = trims;
  for (size_t i = 0; i < strings.size(); ++i) {
    chat.header.string_bytes[i] = static_cast<uint32_t>(strings[i].size());
    chat.strings[i] = strings[i].data();
  }
  return chat;
}

std::optional<std::string> stored_text(const StoredTemplate& stored, const Probe& probe,
                                       bool opens_turn, const std::string& date) {
  const ChatTemplate chat = stored.view();
  std::vector<ChatMessage> messages;
  messages.reserve(probe.size());
  for (const ProbeMessage& message : probe) messages.push_back({message.role, message.content});
  const Conversation conversation = {messages, opens_turn ? ChatEnd::kOpened : ChatEnd::kClosed,
                                     date};
  if (chat_refusal(chat, conversation) != nullptr) return std::nullopt;
  std::string text;
  visit_chat_text(chat, conversation, [&text](const ChatPiece& piece) {
    text.append(piece.text.data(), piece.text.size());
  });
  return text;
}

bool agrees(const StoredTemplate& stored, const TemplateRenderer& renderer, const Probe& probe,
            bool opens_turn, const CalendarDate& date) {
  const std::string& format = stored[ChatString::kDateFormat];
  const auto written = format.empty() ? std::nullopt : format_date(format, date);
  const auto text = stored_text(stored, probe, opens_turn, written.value_or(""));
  return !text || renderer.render(probe, opens_turn, date).text == text;
}

}  // namespace cria::converter
