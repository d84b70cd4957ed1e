// Conversations in the JSON of OpenAI's API, read for every program alike.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "platforms/hosted/chat/conversation.h"

namespace cria::hosted {

// What JSON says that is no conversation: "message 2 has no role". member() is of the request:
// "messages", "tools" or "chat_template_kwargs".
class ConversationError : public std::runtime_error {
 public:
  ConversationError(const char* member, const std::string& what)
      : std::runtime_error(what), member_(member) {}
  [[nodiscard]] const char* member() const { return member_; }

 private:
  const char* member_;
};

// Reads a message and adds it. raw is its text as it was sent: arguments that are objects keep
// their order and digits. A message has
//   role          system, developer, user, assistant, tool or function
//   content       a text, or a list of {"type": "text", "text": ...}; of assistant and tool also
//                 null or nothing
//   tool_calls    of the assistant: {"id", "function": {"name", "arguments"}}, where arguments are
//                 an object, its text, or nothing. Or function_call, one of those functions
//   reasoning_content, reasoning or thinking
//                 of the assistant: what it thought, a text
//   tool_call_id, name or tool_name
//                 of a tool: the call that it answers, or else its function
// Other members do not count. Throws ConversationError.
void read_message(const nlohmann::json& message, std::string_view raw, Conversation* conversation);

// The same of a list; raw is its text. A tool's message without a name gets that of the call which
// has its id.
void read_messages(const nlohmann::json& list, std::string_view raw, Conversation* conversation);
void name_results(Conversation* conversation);

// For templates that take no call or result without a name and an id: calls without an id get one,
// results without either those of the call that they answer, the first without a result.
void complete_calls(Conversation* conversation);

// Gives all calls such ids, and the results of a call its new one: for templates that take ids of
// only their own kind. chat_refusal.h does what a template needs.
void renew_ids(Conversation* conversation);

// Has arguments that are blank be none. Says why others are not what a template prints, reading on
// from "arguments "; empty: they are.
std::string complete_arguments(std::string* text);

// Throws ConversationError, naming the member that it comes from, for a function, number index of
// several, whose description is no text or whose strict is neither true nor false; null counts as
// nothing.
void check_function(const char* member, size_t index, const nlohmann::json& function);

// Throws ConversationError for a member of tools that is no function with a name; form is how it
// would be written.
[[noreturn]] void refuse_tool(size_t index, const nlohmann::json& tool, const char* form);

// The name of a tool that a conversation has.
std::string tool_name(std::string_view tool);
bool has_tool(const Conversation& conversation, std::string_view name);
// Those of all, or of the first, for people: "add, light".
std::string tool_names(const Conversation& conversation);
// "tool 2 ('add')", of the tool at index 1.
std::string shown_tool(size_t index, std::string_view name);

// Adds a tool: the text of a function with a name.
void add_function(std::string_view raw, Conversation* conversation);

// Throws ConversationError, naming the member that they come from, for tools that cannot be told
// apart by their names or are too large to be read.
void check_tools(const char* member, const Conversation& conversation);

// Reads {"type": "function", "function": {"name", ...}} of a list, or of null, and adds them as
// they were written; raw is the list's text. Throws ConversationError.
void read_tools(const nlohmann::json& list, std::string_view raw, Conversation* conversation);

// The same of what OpenAI had before tools: a list of functions, or null. Beside tools they are
// refused.
void read_functions(const nlohmann::json& list, std::string_view raw, Conversation* conversation);

// Reads variables of templates: enable_thinking, or thinking, true or false. Throws
// ConversationError for others.
void read_template_args(const nlohmann::json& args, Conversation* conversation);

}  // namespace cria::hosted
