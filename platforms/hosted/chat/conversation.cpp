#include "platforms/hosted/chat/conversation.h"

#include <algorithm>

namespace cria::hosted {
namespace {

cria_text view_of(const std::string& text) { return {text.data(), text.size()}; }

}  // namespace

uint64_t bytes_of(const Conversation& conversation) {
  uint64_t n_bytes = 0;
  visit_texts(conversation, [&](const std::string& text) { n_bytes += text.size(); });
  return n_bytes;
}

std::string tools_json(const Conversation& conversation) {
  std::string list;
  for (const std::string& tool : conversation.tools) list += (list.empty() ? '[' : ',') + tool;
  return list.empty() ? list : list + ']';
}

ConversationView::ConversationView(const Conversation& conversation, cria_chat_ending ending)
    : ConversationView(conversation, conversation.messages.size(), ending) {}

ConversationView::ConversationView(const Conversation& conversation, size_t n_messages,
                                   cria_chat_ending ending) {
  const size_t n = std::min(n_messages, conversation.messages.size());
  size_t n_calls = 0;
  for (size_t i = 0; i < n; ++i) n_calls += conversation.messages[i].calls.size();
  calls_.reserve(n_calls);  // parts point into it
  for (size_t i = 0; i < n; ++i) {
    const ConversationMessage& m = conversation.messages[i];
    const cria_call* const calls = calls_.data() + calls_.size();
    for (const ConversationCall& call : m.calls) {
      calls_.push_back({view_of(call.name), view_of(call.arguments), view_of(call.id)});
    }
    messages_.push_back({m.role, m.text.data(), m.text.size()});
    parts_.push_back({view_of(m.thinking), m.calls.empty() ? nullptr : calls, m.calls.size(),
                      view_of(m.name), view_of(m.id)});
  }
  for (const std::string& tool : conversation.tools) tools_.push_back(view_of(tool));
  view_.messages = messages_.data();
  view_.n_messages = n;
  view_.ending = ending;
  view_.thinking = conversation.thinking;
  view_.parts = parts_.data();
  view_.tools = tools_.data();
  view_.n_tools = tools_.size();
}

}  // namespace cria::hosted
