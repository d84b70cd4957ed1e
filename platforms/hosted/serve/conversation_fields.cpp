#include "platforms/hosted/serve/conversation_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/messages/raw_json.h"
#include "platforms/hosted/serve/api_error.h"

namespace cria::hosted {
namespace {

[[noreturn]] void refuse(const char* param, const std::string& what) {
  throw ApiError(ErrorKind::kInvalidRequest, what, param);
}

std::string_view text_in(const std::string& body, const char* name) {
  const std::optional<std::string_view> text = raw_member(body, {name});
  if (!text) throw ApiError(ErrorKind::kServer, std::string(name) + " was not found in the body");
  return *text;
}

template <typename Read>
auto as_api_error(const Read& read) {
  try {
    return read();
  } catch (const ConversationError& error) {
    refuse(error.list(), error.what());
  }
}

std::string name_in(const Json& json, const char* param) {
  const Json* const name = json.is_object() ? Fields(json).find("name") : nullptr;
  if (name == nullptr || !name->is_string()) {
    refuse(param, std::string(param) + " names no function");
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
    refuse(param, std::string(param) + " is '" + shown(text) +
                      "'; auto, none, required and a function's name are known");
  }
}

std::vector<std::string> read_tool_list(const RequestFields& fields, MemberName name,
                                        const std::string& body) {
  const Json* const list = fields.list(name);
  if (list == nullptr || list->empty()) return {};
  return as_api_error([&] { return read_tools(*list, text_in(body, name)); });
}

bool has_tool(const std::vector<std::string>& tools, const std::string& name) {
  return std::any_of(tools.begin(), tools.end(), [&](const std::string& tool) {
    return Json::parse(*member_text(*member_text(tool, "function"), "name")) == name;
  });
}

void check_model_calls(const OrderContext& context, const char* param) {
  if (context.text->calls_tools()) return;
  throw ApiError(ErrorKind::kNotSupported,
                 std::string("the model calls no tools: its chat template ") +
                     (context.text->writing()->writes(CRIA_WRITES_CALLS)
                          ? "has no place for them"
                          : "shows no form of calls that is known"),
                 param);
}

}  // namespace

bool RequestedConversation::has_strict_tools() const {
  return std::any_of(text.tools.begin(), text.tools.end(), [](const std::string& tool) {
    return member_text(*member_text(tool, "function"), "strict") == "true";
  });
}

std::vector<MessageText> read_message_list(const RequestFields& fields, const std::string& body) {
  const Json* const list = fields.list("messages");
  if (list == nullptr || list->empty()) return {};
  return as_api_error([&] { return read_messages(*list, text_in(body, "messages")); });
}

RequestedConversation read_conversation(const OrderContext& context, const RequestFields& fields,
                                        const std::string& body) {
  RequestedConversation asked;
  asked.text.messages = read_message_list(fields, body);
  if (asked.text.messages.empty()) {
    refuse("messages", "messages must be a list of at least one message");
  }
  std::vector<std::string>& tools = asked.text.tools;
  tools = read_tool_list(fields, "tools", body);
  const char* param = "tools";
  if (tools.empty()) {
    tools = read_tool_list(fields, "functions", body);
    asked.rules.are_functions = !tools.empty();
    if (!tools.empty()) param = "functions";
  }
  if (tools.empty()) return asked;
  check_model_calls(context, param);
  if (asked.rules.are_functions) {
    asked.rules.takes_many = false;
    read_choice(fields.find("function_call"), "function_call", &asked.rules);
  } else {
    asked.rules.takes_many = fields.flag("parallel_tool_calls", true);
    read_choice(fields.find("tool_choice"), "tool_choice", &asked.rules);
  }
  if (!asked.rules.name.empty() && !has_tool(tools, asked.rules.name)) {
    const char* const choice = asked.rules.are_functions ? "function_call" : "tool_choice";
    refuse(choice, std::string(choice) + " names '" + shown(asked.rules.name) +
                       "', which is none of " + param);
  }
  return asked;
}

cria_thinking read_thinking(const RequestFields& fields) {
  constexpr const char* kSwitches[] = {"enable_thinking", "thinking"};
  if (fields.text("reasoning_effort").value_or("") == "none") return CRIA_THINKING_OFF;
  const Json* const given = fields.object("chat_template_kwargs");
  if (given == nullptr) return CRIA_THINKING_DEFAULT;
  cria_thinking thinking = CRIA_THINKING_DEFAULT;
  for (const auto& [name, value] : given->items()) {
    const bool is_switch =
        std::find(std::begin(kSwitches), std::end(kSwitches), name) != std::end(kSwitches);
    if (!is_switch) {
      refuse("chat_template_kwargs",
             "chat_template_kwargs has '" + shown(name) + "'; enable_thinking alone is supported");
    }
    if (value.is_null()) continue;
    if (!value.is_boolean()) refuse("chat_template_kwargs", name + " must be true or false");
    thinking = value.get<bool>() ? CRIA_THINKING_ON : CRIA_THINKING_OFF;
  }
  return thinking;
}

}  // namespace cria::hosted
