#include "platforms/hosted/session/tool_rounds.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace cria::hosted {
namespace {

cria_text view_of(std::string_view text) { return {text.data(), text.size()}; }

// Whether the template takes a question with a tool, and rounds of so many calls and their results:
// at most two calls in all, each with its own id.
bool takes(cria_workspace* workspace, std::initializer_list<size_t> n_calls) {
  constexpr std::string_view kTool =
      R"({"type": "function", "function": {"name": "f", "description": "d", )"
      R"("parameters": {"type": "object", "properties": {}}}})";
  // Of the shape that the strictest templates want.
  constexpr std::string_view kIds[] = {"call00000", "call00001"};
  std::vector<cria_call> calls;
  for (const std::string_view id : kIds) {
    calls.push_back({view_of("f"), view_of("{}"), view_of(id)});
  }
  std::vector<cria_message> messages = {{CRIA_USER, "q", 1}};
  std::vector<cria_message_parts> parts(1);
  for (size_t first = 0; const size_t n : n_calls) {
    messages.push_back({CRIA_ASSISTANT, "", 0});
    parts.push_back({{}, calls.data() + first, n, {}, {}});
    for (size_t i = first; i < first + n; ++i) {
      messages.push_back({CRIA_TOOL, "r", 1});
      parts.push_back({{}, nullptr, 0, view_of("f"), view_of(kIds[i])});
    }
    first += n;
  }
  const cria_text tool = view_of(kTool);
  const cria_conversation conversation = {messages.data(),
                                          messages.size(),
                                          CRIA_TURN_OPENED,
                                          CRIA_THINKING_DEFAULT,
                                          parts.data(),
                                          &tool,
                                          1};
  return cria_chat_refusal(workspace, &conversation) == nullptr;
}

}  // namespace

ToolRounds tool_rounds_of(const cria_model_info& info, cria_workspace* workspace) {
  if (info.has_tokenizer == 0 || info.chat_template == 0 || info.pooling != 0) return {};
  const bool are_taken = takes(workspace, {}) && takes(workspace, {1}) && takes(workspace, {1, 1});
  return {are_taken, are_taken && takes(workspace, {2})};
}

}  // namespace cria::hosted
