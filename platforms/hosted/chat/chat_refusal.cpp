#include "platforms/hosted/chat/chat_refusal.h"

#include <string_view>
#include <utility>

#include "platforms/hosted/chat/conversation_json.h"

namespace cria::hosted {
namespace {

const char* reason_of(cria_workspace* workspace, const Conversation& conversation,
                      cria_chat_ending ending) {
  return cria_chat_refusal(workspace, ConversationView(conversation, ending).get());
}

// "tool 2 ('add'): " of the first tool that the reason is about; empty: it is about none, or all.
std::string blamed_tool(cria_workspace* workspace, const Conversation& conversation,
                        std::string_view reason) {
  const auto is_of = [&](const std::string& tool) {
    const Conversation alone = {{}, {tool}};
    const char* const found = reason_of(workspace, alone, CRIA_TURN_OPENED);
    return found != nullptr && reason == found;
  };
  constexpr const char* kPlain =
      R"({"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}})";
  for (size_t i = 0; i < conversation.tools.size(); ++i) {
    const std::string& tool = conversation.tools[i];
    if (is_of(tool)) return is_of(kPlain) ? std::string() : shown_tool(i, tool_name(tool)) + ": ";
  }
  return {};
}

}  // namespace

std::optional<ChatRefusal> chat_refusal_of(cria_workspace* workspace,
                                           const Conversation& conversation,
                                           cria_chat_ending ending) {
  const char* const reason = reason_of(workspace, conversation, ending);
  if (reason == nullptr) return std::nullopt;
  const std::string tool = blamed_tool(workspace, conversation, reason);
  return ChatRefusal{tool + "the chat template " + reason, !tool.empty()};
}

std::optional<ChatRefusal> complete_for(cria_workspace* workspace, Conversation* conversation,
                                        cria_chat_ending ending) {
  if (reason_of(workspace, *conversation, ending) == nullptr) return std::nullopt;
  Conversation completed = *conversation;
  complete_calls(&completed);
  if (reason_of(workspace, completed, ending) != nullptr) {
    renew_ids(&completed);
    auto refusal = chat_refusal_of(workspace, completed, ending);
    if (refusal) return refusal;
  }
  *conversation = std::move(completed);
  return std::nullopt;
}

}  // namespace cria::hosted
