// The members of requests that make a conversation: messages, tools, and what is said of both.
#pragma once

#include <optional>
#include <string>

#include "platforms/hosted/serve/answer_order.h"

namespace cria::hosted {

// Whether an answer calls tools.
enum class ToolChoice { kNone, kMayCall, kMustCall };

struct ToolRules {
  ToolChoice choice = ToolChoice::kNone;
  std::string name;            // the one that must be called; empty: any
  bool takes_many = true;      // calls
  bool are_functions = false;  // as OpenAI had them before there were tools
};

struct RequestedConversation {
  ConversationMembers members;
  Conversation text;
  ToolRules rules;
  // Whether a tool says "strict": true.
  [[nodiscard]] bool has_strict_tools() const;
};

// Reads a member, where it is there, as JSON of a conversation; body is what it was parsed from.
// Throws ApiError.
using ReadParts = void (*)(const Json& json, std::string_view raw, Conversation* conversation);
void read_member(const Json* member, const std::string& body, const char* name, ReadParts read,
                 Conversation* conversation);

// messages, at least one; tools, tool_choice, parallel_tool_calls; functions, function_call.
// Throws ApiError, also where the model calls no tools. body is what fields were read from.
RequestedConversation read_conversation(const OrderContext& context, const RequestFields& fields,
                                        const std::string& body);

// What of that is said of the tools of a conversation that has been read.
void read_tool_rules(const OrderContext& context, const RequestFields& fields,
                     RequestedConversation* asked);

// chat_template_kwargs; effort is how OpenAI's endpoints say the same, "none".
cria_thinking read_thinking(const RequestFields& fields, const std::optional<std::string>& effort);

}  // namespace cria::hosted
