// Conversations in the words of OpenAI's and Ollama's APIs, as the chat functions of cria.h take
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <cria.h>

namespace cria::hosted {

struct CallText {
  std::string name;
  std::string arguments;  // JSON, an object, as it was written
  std::string id;
};

struct MessageText {
  cria_role role;
  std::string text;
  std::string thinking = {};
  std::vector<CallText> calls = {};
  std::string name = {};  // of a tool's message: the function's
  std::string id = {};    // of a tool's message: the call's
};

struct ConversationText {
  std::vector<MessageText> messages;
  std::vector<std::string> tools = {};  // JSON: {"type": "function", "function": {...}}
  cria_thinking thinking = CRIA_THINKING_DEFAULT;

  // All its texts.
  template <typename Visit>
  void visit(const Visit& visit) const {
    for (const MessageText& m : messages) {
      for (const std::string* const text : {&m.text, &m.thinking, &m.name, &m.id}) visit(*text);
      for (const CallText& call : m.calls) {
        for (const std::string* const text : {&call.name, &call.arguments, &call.id}) visit(*text);
      }
    }
    for (const std::string& tool : tools) visit(tool);
  }
  [[nodiscard]] uint64_t n_bytes() const;
};

// A conversation for the functions of cria.h; the text outlives it and stays as it is.
class ConversationView {
 public:
  ConversationView(const ConversationText& text, cria_chat_ending ending);
  ConversationView(const ConversationView&) = delete;
  ConversationView& operator=(const ConversationView&) = delete;
  [[nodiscard]] const cria_conversation* get() const { return &conversation_; }

 private:
  std::vector<cria_message> messages_;
  std::vector<std::vector<cria_call>> calls_;
  std::vector<cria_message_parts> parts_;
  std::vector<cria_text> tools_;
  cria_conversation conversation_;
};

// What cannot be read: the message or tool, counted from 1, and a text that reads on from it.
class ConversationError : public std::exception {
 public:
  ConversationError(const char* list, size_t index, std::string what);
  [[nodiscard]] const char* list() const { return list_; }  // "messages" or "tools"
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  const char* list_;
  std::string text_;  // "message 3 has no role"
};

// A list of messages. raw is its text, in which arguments keep their order. A message is
//   {"role", "content"}       a text, null, or a list of {"type": "text", "text"}
//   an assistant's may have   "tool_calls": [{"id", "function": {"name", "arguments": a text or an
//                             object}}], "reasoning_content", "reasoning" or "thinking"; or
//                             "function_call", as there was before tools
//   a tool's                  "tool_call_id", or "tool_name" or "name" of the function; its role
//                             may be "function"
// Calls and results without an id get one, so do results without a name: from the calls that they
// answer, in order. Throws ConversationError.
std::vector<MessageText> read_messages(const nlohmann::json& list, std::string_view raw);

// A list of tools, each {"type": "function", "function": {"name", ...}} or the function alone.
// Throws ConversationError.
std::vector<std::string> read_tools(const nlohmann::json& list, std::string_view raw);

}  // namespace cria::hosted
