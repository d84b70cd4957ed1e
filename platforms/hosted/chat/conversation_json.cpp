#include "platforms/hosted/chat/conversation_json.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/chat/json_fault.h"
#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/session/model_text.h"

namespace cria::hosted {
namespace {

using Json = nlohmann::json;

constexpr const char* kNoFunction =
    R"(has a call that is no {"type": "function", "function": {"name": ...}})";
constexpr const char* kTools = "tools";
constexpr const char* kFunctions = "functions";
constexpr const char* kTemplateArgs = "chat_template_kwargs";

// Null: it is not there, or null.
const Json* find(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool is_text(const Json& json, std::string_view text) {
  return json.is_string() && json.get_ref<const std::string&>() == text;
}

bool has_name(const Json& function) {
  const Json* const name = function.is_object() ? find(function, "name") : nullptr;
  return name != nullptr && name->is_string();
}

// The object "function" of a tool or a call, if it has a name.
const Json* named_function(const Json& json) {
  const Json* const type = json.is_object() ? find(json, "type") : nullptr;
  const Json* const function = json.is_object() ? find(json, "function") : nullptr;
  if (function == nullptr || !function->is_object()) return nullptr;
  if (type != nullptr && !is_text(*type, "function")) return nullptr;
  return has_name(*function) ? function : nullptr;
}

// One message being read.
class MessageReader {
 public:
  MessageReader(const Json& json, std::string_view raw, size_t index)
      : json_(json), raw_(raw), index_(index) {}

  ConversationMessage read() {
    if (!json_.is_object()) refuse("is not an object with role and content");
    ConversationMessage message;
    message.role = read_role();
    message.text = read_content(message.role);
    if (const Json* const images = find(json_, "images"); images != nullptr && !images->empty()) {
      refuse("has images; this model reads only text");
    }
    if (const Json* const calls = find(json_, "tool_calls"); calls != nullptr) {
      read_calls(*calls, &message);
    } else if (const Json* const call = find(json_, "function_call"); call != nullptr) {
      need_assistant(message.role);
      message.calls.push_back(
          read_function(*call, raw_member(raw_, {"function_call"}).value_or("{}")));
    }
    if (message.role == CRIA_ASSISTANT) {
      message.thinking = first_text({"reasoning_content", "reasoning", "thinking"});
    }
    if (message.role == CRIA_TOOL) {
      message.id = first_text({"tool_call_id"});
      message.name = first_text({"name", "tool_name"});
    }
    return message;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConversationError("messages", "message " + std::to_string(index_ + 1) + " " + what);
  }

  [[nodiscard]] cria_role read_role() const {
    const Json* const role = find(json_, "role");
    if (role == nullptr || !role->is_string()) refuse("has no role");
    const auto& name = role->get_ref<const std::string&>();
    if (name == "function") return CRIA_TOOL;
    const std::optional<cria_role> known = role_of(name);
    if (!known) {
      refuse("has the role '" + shown(name) + "'; system, user, assistant and tool are known");
    }
    return *known;
  }

  [[nodiscard]] std::string read_content(cria_role role) const {
    const Json* const content = find(json_, "content");
    if (content == nullptr) {
      if (role != CRIA_ASSISTANT && role != CRIA_TOOL) refuse("has no content");
      return {};
    }
    if (content->is_string()) return content->get<std::string>();
    if (!content->is_array()) refuse("has a content that is neither a text nor a list of parts");
    std::string text;
    for (const Json& part : *content) text += read_part(part);
    return text;
  }

  [[nodiscard]] std::string read_part(const Json& part) const {
    const Json* const type = part.is_object() ? find(part, "type") : nullptr;
    if (type == nullptr || !type->is_string()) refuse("has a part without a type");
    const auto& name = type->get_ref<const std::string&>();
    if (name != "text") {
      refuse("has a part of the type '" + shown(name) + "'; this model reads only text");
    }
    const Json* const text = find(part, "text");
    if (text == nullptr || !text->is_string()) refuse("has a text part without text");
    return text->get<std::string>();
  }

  // The first of them that is there.
  [[nodiscard]] std::string first_text(std::initializer_list<const char*> names) const {
    for (const char* const name : names) {
      const Json* const found = find(json_, name);
      if (found == nullptr) continue;
      if (!found->is_string()) refuse(std::string("has a ") + name + " that is not a text");
      return found->get<std::string>();
    }
    return {};
  }

  void read_calls(const Json& calls, ConversationMessage* message) const {
    if (!calls.is_array()) refuse("has tool_calls that are not a list");
    if (calls.empty()) return;
    need_assistant(message->role);
    const auto raws = raw_elements(raw_member(raw_, {"tool_calls"}).value_or("[]"));
    for (size_t i = 0; i < calls.size() && i < raws.size(); ++i) {
      message->calls.push_back(read_call(calls[i], raws[i]));
    }
  }

  void need_assistant(cria_role role) const {
    if (role != CRIA_ASSISTANT) refuse("has calls, which only an assistant makes");
  }

  [[nodiscard]] ConversationCall read_call(const Json& json, std::string_view raw) const {
    const Json* const function = named_function(json);
    if (function == nullptr) refuse(kNoFunction);
    ConversationCall call = read_function(*function, raw_member(raw, {"function"}).value_or("{}"));
    if (const Json* const id = find(json, "id"); id != nullptr) {
      if (!id->is_string()) refuse("has a call whose id is not a text");
      call.id = id->get<std::string>();
    }
    return call;
  }

  [[nodiscard]] ConversationCall read_function(const Json& function, std::string_view raw) const {
    ConversationCall call;
    if (has_name(function)) call.name = function["name"].get<std::string>();
    if (call.name.empty()) refuse(kNoFunction);
    const Json* const arguments = find(function, "arguments");
    if (arguments != nullptr && arguments->is_string()) {
      call.arguments = arguments->get<std::string>();
    } else if (arguments != nullptr) {
      call.arguments = raw_member(raw, {"arguments"}).value_or(std::string_view());
    }
    if (const std::string wrong = complete_arguments(&call.arguments); !wrong.empty()) {
      refuse("has a call of '" + shown(call.name) + "' whose arguments " + wrong);
    }
    return call;
  }

  const Json& json_;
  const std::string_view raw_;
  const size_t index_;
};

// The same for the same conversation, and of nine letters and digits: Mistral takes no other.
std::string new_id(uint32_t number) {
  constexpr uint32_t kMostIds = 100000;
  return text_of("call%05u", number % kMostIds);
}

}  // namespace

std::string complete_arguments(std::string* text) {
  constexpr const char* kNoObject = "are not a JSON object";
  const size_t begin = text->find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) *text = "{}";
  if (begin != std::string::npos && (*text)[begin] != '{') return kNoObject;
  const std::string fault = json_fault(*text);
  return fault.empty() ? fault : std::string(kNoObject) + ": " + fault;
}

std::string tool_name(std::string_view tool) {
  return Json::parse(*raw_member(tool, {"function", "name"}));
}

std::string shown_tool(size_t index, std::string_view name) {
  return "tool " + std::to_string(index + 1) + " ('" + shown(name) + "')";
}

std::string tool_names(const Conversation& conversation) {
  constexpr size_t kMost = 8;
  const size_t n = conversation.tools.size();
  std::string names;
  for (size_t i = 0; i < std::min(n, kMost); ++i) {
    names += (i == 0 ? "" : ", ") + shown(tool_name(conversation.tools[i]));
  }
  return n > kMost ? names + text_of(" and %zu more", n - kMost) : names;
}

bool has_tool(const Conversation& conversation, std::string_view name) {
  return std::any_of(conversation.tools.begin(), conversation.tools.end(),
                     [&](const std::string& tool) { return tool_name(tool) == name; });
}

void check_function(const char* member, size_t index, const Json& function) {
  const auto refuse = [&](const char* what) {
    const auto& name = function["name"].get_ref<const std::string&>();
    throw ConversationError(member, shown_tool(index, name) + " has a " + what);
  };
  const Json* const strict = find(function, "strict");
  if (strict != nullptr && !strict->is_boolean()) refuse("strict that is neither true nor false");
  const Json* const description = find(function, "description");
  if (description != nullptr && !description->is_string()) refuse("description that is not a text");
}

void refuse_tool(size_t index, const Json& tool, const char* form) {
  const Json* const type = tool.is_object() ? find(tool, "type") : nullptr;
  const std::string which = "tool " + std::to_string(index + 1);
  if (type != nullptr && type->is_string() && !is_text(*type, "function")) {
    throw ConversationError(kTools, which + " is of the type '" +
                                        shown(type->get_ref<const std::string&>()) +
                                        "'; only functions are known");
  }
  throw ConversationError(kTools, which + " is no function with a name; give " + form);
}

void add_function(std::string_view raw, Conversation* conversation) {
  conversation->tools.push_back(R"({"type": "function", "function": )" + std::string(raw) + "}");
}

void check_tools(const char* member, const Conversation& conversation) {
  constexpr size_t kMostBytes = size_t{1} << 20;  // that what reads calls takes
  constexpr size_t kMostNameBytes = 128;
  size_t n_bytes = 1;  // a list has a bracket or a comma before each, and one after
  for (const std::string& tool : conversation.tools) n_bytes += tool.size() + 1;
  if (n_bytes > kMostBytes) {
    throw ConversationError(member, std::string(member) + " have more than 1 MiB: " +
                                        std::to_string(n_bytes) + " bytes");
  }
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < conversation.tools.size(); ++i) {
    const std::string name = tool_name(conversation.tools[i]);
    const std::string which = "tool " + std::to_string(i + 1);
    if (name.empty() || name.size() > kMostNameBytes) {
      throw ConversationError(member, which + " has no name of 1 to 128 bytes");
    }
    if (!names.insert(name).second) {
      throw ConversationError(member, which + " is called '" + shown(name) +
                                          "', as one before it; give each its own name");
    }
  }
}

void read_message(const Json& message, std::string_view raw, Conversation* conversation) {
  std::vector<ConversationMessage>& messages = conversation->messages;
  messages.push_back(MessageReader(message, raw, messages.size()).read());
}

void read_messages(const Json& list, std::string_view raw, Conversation* conversation) {
  if (!list.is_array()) throw ConversationError("messages", "messages must be a list");
  const std::vector<std::string_view> raws = raw_elements(raw);
  for (size_t i = 0; i < list.size(); ++i) {
    read_message(list[i], i < raws.size() ? raws[i] : std::string_view(), conversation);
  }
  name_results(conversation);
}

void name_results(Conversation* conversation) {
  std::unordered_map<std::string_view, std::string_view>
      names;  // by id, the latest: ids come again
  for (ConversationMessage& m : conversation->messages) {
    for (const ConversationCall& call : m.calls) names.insert_or_assign(call.id, call.name);
    if (m.role != CRIA_TOOL || m.id.empty() || !m.name.empty()) continue;
    if (const auto found = names.find(m.id); found != names.end()) m.name = found->second;
  }
}

void complete_calls(Conversation* conversation) {
  std::vector<const ConversationCall*> open;  // of the last message with calls, without a result
  uint32_t n_ids = 0;
  for (ConversationMessage& m : conversation->messages) {
    if (!m.calls.empty()) open.clear();
    for (ConversationCall& call : m.calls) {
      if (call.id.empty()) call.id = new_id(n_ids++);
      open.push_back(&call);
    }
    if (m.role != CRIA_TOOL) continue;
    const auto answered = std::find_if(open.begin(), open.end(), [&](const ConversationCall* call) {
      if (!m.id.empty()) return call->id == m.id;
      return m.name.empty() || call->name == m.name;
    });
    if (answered == open.end()) continue;
    if (m.id.empty()) m.id = (*answered)->id;
    if (m.name.empty()) m.name = (*answered)->name;
    open.erase(answered);
  }
}

void renew_ids(Conversation* conversation) {
  std::unordered_map<std::string, std::string> renewed;  // by id, the latest: ids come again
  uint32_t n_ids = 0;
  for (ConversationMessage& m : conversation->messages) {
    for (ConversationCall& call : m.calls) {
      std::string id = new_id(n_ids++);
      if (!call.id.empty()) renewed.insert_or_assign(call.id, id);
      call.id = std::move(id);
    }
    if (const auto found = renewed.find(m.id); found != renewed.end()) m.id = found->second;
  }
  complete_calls(conversation);
}

void read_tools(const Json& list, std::string_view raw, Conversation* conversation) {
  if (list.is_null()) return;
  if (!list.is_array()) throw ConversationError(kTools, "tools must be a list");
  constexpr const char* kForm = R"({"type": "function", "function": {"name": ...}})";
  const std::vector<std::string_view> raws = raw_elements(raw);
  for (size_t i = 0; i < list.size() && i < raws.size(); ++i) {
    const Json* const function = named_function(list[i]);
    if (function == nullptr) refuse_tool(i, list[i], kForm);
    check_function(kTools, i, *function);
    if (find(list[i], "type") != nullptr) {
      conversation->tools.emplace_back(raws[i]);
    } else {
      add_function(raw_member(raws[i], {"function"}).value_or("{}"), conversation);
    }
  }
  check_tools(kTools, *conversation);
}

void read_functions(const Json& list, std::string_view raw, Conversation* conversation) {
  if (list.is_null()) return;
  if (!list.is_array()) throw ConversationError(kFunctions, "functions must be a list");
  if (!list.empty() && !conversation->tools.empty()) {
    throw ConversationError(kFunctions, "functions and tools cannot be combined; send tools");
  }
  const std::vector<std::string_view> raws = raw_elements(raw);
  for (size_t i = 0; i < list.size() && i < raws.size(); ++i) {
    if (!has_name(list[i])) {
      throw ConversationError(
          kFunctions, "function " + std::to_string(i + 1) + R"( has no name; give {"name": ...})");
    }
    check_function(kFunctions, i, list[i]);
    add_function(raws[i], conversation);
  }
  check_tools(kFunctions, *conversation);
}

void read_template_args(const Json& args, Conversation* conversation) {
  if (args.is_null()) return;
  if (!args.is_object()) throw ConversationError(kTemplateArgs, "is not an object");
  for (const auto& [name, value] : args.items()) {
    if (name != "enable_thinking" && name != "thinking") {
      throw ConversationError(kTemplateArgs,
                              "'" + shown(name) + "' is not known; use enable_thinking");
    }
    if (!value.is_boolean())
      throw ConversationError(kTemplateArgs, name + " must be true or false");
    conversation->thinking = value.get<bool>() ? CRIA_THINKING_ON : CRIA_THINKING_OFF;
  }
}

}  // namespace cria::hosted
