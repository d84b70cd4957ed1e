#include "platforms/hosted/serve/conversation_fields.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/chat/conversation_json.h"
#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/serve/api_error.h"

namespace cria::hosted {
namespace {

[[noreturn]] void refuse(const char* param, const std::string& what) {
  throw ApiError(ErrorKind::kInvalidRequest, what, param);
}

std::string name_in(const Json& json, const char* param) {
  const Json* const name = json.is_object() ? Fields(json).find("name") : nullptr;
  if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>().empty()) {
    refuse(param, std::string(param) + " names no function; give its name, or auto");
  }
  return name->get<std::string>();
}

// "auto", "none", "required", or what names one.
void read_choice(const Json* json, const char* param, ToolRules* rules) {
  rules->choice = ToolChoice::kMayCall;
  if (json == nullptr) return;
  if (!json->is_string()) {
    const bool is_named = json->is_object() && !rules->are_functions;
    const Json* const function = is_named ? Fields(*json).find("function") : json;
    rules->choice = ToolChoice::kMustCall;
    rules->name = name_in(function == nullptr ? *json : *function, param);
    return;
  }
  const std::string text = json->get<std::string>();
  if (text == "auto") return;
  if (text == "none") {
    rules->choice = ToolChoice::kNone;
  } else if (text == "required" && !rules->are_functions) {
    rules->choice = ToolChoice::kMustCall;
  } else {
    refuse(param, std::string(param) + " is '" + shown(text) + "'; give auto, none" +
                      (rules->are_functions ? "" : ", required") +
                      " or an object with a function's name");
  }
}

// A choice that would have no effect; those that ask for none pass.
void refuse_choice(const RequestFields& fields, MemberName name, const char* why,
                   std::initializer_list<const char*> passing) {
  const Json* const choice = fields.find(name);
  const auto is_choice = [choice](const char* text) { return *choice == text; };
  if (choice == nullptr || std::any_of(passing.begin(), passing.end(), is_choice)) return;
  refuse(name, std::string(name) + " " + why);
}

void check_model_calls(const OrderContext& context, const char* param) {
  if (context.text->calls_tools()) return;
  throw ApiError(
      ErrorKind::kInvalidRequest,
      std::string("the model calls no tools: its chat template ") +
          (context.text->writing()->writes(CRIA_WRITES_CALLS) ? kTakesNoRounds
                                                              : "shows no known form of calls"),
      param);
}

}  // namespace

bool RequestedConversation::has_strict_tools() const {
  return std::any_of(text.tools.begin(), text.tools.end(), [](const std::string& tool) {
    return raw_member(tool, {"function", "strict"}) == "true";
  });
}

void read_member(const Json* member, const std::string& body, const char* name, ReadParts read,
                 Conversation* conversation) {
  if (member == nullptr) return;
  const std::optional<std::string_view> raw = raw_member(body, {name});
  if (!raw) throw ApiError(ErrorKind::kServer, std::string(name) + " was not found in the body");
  try {
    read(*member, *raw, conversation);
  } catch (const ConversationError& error) {
    refuse(error.member(), error.what());
  }
}

RequestedConversation read_conversation(const OrderContext& context, const RequestFields& fields,
                                        const std::string& body) {
  RequestedConversation asked;
  Conversation& text = asked.text;
  read_member(fields.list("messages"), body, "messages", &read_messages, &text);
  if (text.messages.empty()) {
    refuse("messages", "messages must be a list of at least one message");
  }
  read_member(fields.find("tools"), body, "tools", &read_tools, &text);
  asked.rules.are_functions = text.tools.empty();
  read_member(fields.find("functions"), body, "functions", &read_functions, &text);
  asked.rules.are_functions = asked.rules.are_functions && !text.tools.empty();
  read_tool_rules(context, fields, &asked);
  context.text->complete(&text, asked.members);
  return asked;
}

void read_tool_rules(const OrderContext& context, const RequestFields& fields,
                     RequestedConversation* asked) {
  ToolRules& rules = asked->rules;
  if (asked->text.tools.empty()) {
    for (const MemberName name : {MemberName("tool_choice"), MemberName("function_call")}) {
      refuse_choice(fields, name, "needs tools, and the request has none", {"auto", "none"});
    }
    return;
  }
  if (rules.are_functions) asked->members.tools = "functions";
  check_model_calls(context, asked->members.tools);
  const MemberName choice =
      rules.are_functions ? MemberName("function_call") : MemberName("tool_choice");
  if (rules.are_functions) {
    refuse_choice(fields, "tool_choice", "is of tools; with functions send function_call",
                  {"auto"});
    rules.takes_many = false;
  } else {
    refuse_choice(fields, "function_call", "is of functions; with tools send tool_choice",
                  {"auto"});
    rules.takes_many = fields.flag("parallel_tool_calls", true) && context.text->calls_several();
  }
  read_choice(fields.find(choice), choice, &rules);
  if (!rules.name.empty() && !has_tool(asked->text, rules.name)) {
    refuse(choice, std::string(choice) + " names '" + shown(rules.name) +
                       "', which is no tool of the request; it has " + tool_names(asked->text));
  }
}

cria_thinking read_thinking(const RequestFields& fields, const std::optional<std::string>& effort) {
  if (effort == "none") return CRIA_THINKING_OFF;
  Conversation conversation;
  if (const Json* const args = fields.find("chat_template_kwargs")) {
    try {
      read_template_args(*args, &conversation);
    } catch (const ConversationError& error) {
      refuse(error.member(), std::string(error.member()) + ": " + error.what());
    }
  }
  return conversation.thinking;
}

}  // namespace cria::hosted
