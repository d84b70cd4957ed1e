#include "platforms/hosted/messages/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/messages/raw_json.h"
#include "platforms/hosted/session/model_text.h"

namespace cria::hosted {
namespace {

using Json = nlohmann::json;

constexpr const char* kMessages = "messages";
constexpr const char* kTools = "tools";

cria_text view_of(std::string_view text) { return {text.data(), text.size()}; }

// Null: there is none, or it is null.
const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// One message that is read.
class MessageReader {
 public:
  MessageReader(const Json& json, std::string_view raw, size_t index)
      : json_(json), raw_(raw), index_(index) {}

  MessageText read() {
    if (!json_.is_object()) refuse("is no object with role and content");
    MessageText message = {role(), {}};
    const Json* const images = member(json_, "images");
    if (images != nullptr && !images->empty()) refuse("has images; this model reads text alone");
    read_calls(&message);
    const bool may_be_silent = message.role == CRIA_ASSISTANT || message.role == CRIA_TOOL;
    const Json* const content = member(json_, "content");
    if (content == nullptr && !may_be_silent) refuse("has no content");
    if (content != nullptr) message.text = text_of_content(*content);
    if (message.role == CRIA_ASSISTANT) {
      message.thinking = first_text({"reasoning_content", "reasoning", "thinking"});
    }
    if (message.role == CRIA_TOOL) {
      message.id = first_text({"tool_call_id"});
      message.name = first_text({"tool_name", "name"});
    }
    return message;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConversationError(kMessages, index_, what);
  }

  cria_role role() const {
    const Json* const role = member(json_, "role");
    if (role == nullptr || !role->is_string()) refuse("has no role");
    const std::string name = role->get<std::string>();
    if (name == "function") return CRIA_TOOL;
    const std::optional<cria_role> known = role_of(name);
    if (known) return *known;
    refuse("has the role '" + shown(name) + "'; system, user, assistant and tool are known");
  }

  std::string text_of_content(const Json& content) const {
    if (content.is_string()) return content.get<std::string>();
    if (!content.is_array()) refuse("has a content that is neither a text nor a list of parts");
    std::string text;
    for (const Json& part : content) {
      const Json* const type = part.is_object() ? member(part, "type") : nullptr;
      if (type == nullptr || !type->is_string()) refuse("has a part without a type");
      if (type->get_ref<const std::string&>() != "text") {  // Json's own comparison cannot fail
        refuse("has a part of the type '" + shown(type->get<std::string>()) +
               "'; this model reads text alone");
      }
      const Json* const value = member(part, "text");
      if (value == nullptr || !value->is_string()) refuse("has a text part without text");
      text += value->get_ref<const std::string&>();
    }
    return text;
  }

  // Of the first that is there.
  std::string first_text(std::initializer_list<const char*> names) const {
    for (const char* const name : names) {
      const Json* const found = member(json_, name);
      if (found == nullptr) continue;
      if (!found->is_string()) refuse(std::string("has a ") + name + " that is no text");
      return found->get<std::string>();
    }
    return {};
  }

  void read_calls(MessageText* message) const {
    const Json* const calls = member(json_, "tool_calls");
    const Json* const function = member(json_, "function_call");
    const bool has_calls = calls != nullptr && !calls->empty();
    if (!has_calls && function == nullptr) return;
    if (message->role != CRIA_ASSISTANT) refuse("has calls and is not the assistant's");
    if (has_calls && !calls->is_array()) refuse("has tool_calls that are no list");
    if (has_calls) {
      const std::vector<std::string_view> raw = item_texts(*member_text(raw_, "tool_calls"));
      for (size_t i = 0; i < calls->size(); ++i) {
        const Json& call = (*calls)[i];
        const Json* const called = call.is_object() ? member(call, "function") : nullptr;
        if (called == nullptr) refuse("has a call without a function");
        message->calls.push_back(call_of(*called, *member_text(raw[i], "function")));
        const Json* const id = member(call, "id");
        if (id != nullptr && id->is_string()) message->calls.back().id = id->get<std::string>();
      }
    } else {
      message->calls.push_back(call_of(*function, *member_text(raw_, "function_call")));
    }
  }

  CallText call_of(const Json& function, std::string_view raw) const {
    const Json* const name = function.is_object() ? member(function, "name") : nullptr;
    if (name == nullptr || !name->is_string()) refuse("has a call of a function without a name");
    CallText call = {name->get<std::string>(), "{}", {}};
    const Json* const arguments = member(function, "arguments");
    if (arguments == nullptr) return call;
    if (arguments->is_object()) {
      call.arguments = *member_text(raw, "arguments");
      return call;
    }
    std::string text = arguments->is_string() ? arguments->get<std::string>() : "-";
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return call;
    if (!is_object(text)) refuse("has a call whose arguments are no JSON object");
    call.arguments = std::move(text);
    return call;
  }

  // Nested no deeper than the rest of a request may be: the parser recurses.
  static bool is_object(const std::string& text) {
    constexpr int kMostDepth = 128;
    int depth = 0;
    bool is_shallow = true;
    const auto watch = [&](int, Json::parse_event_t event, Json&) {
      using Event = Json::parse_event_t;
      depth += event == Event::object_start || event == Event::array_start ? 1 : 0;
      depth -= event == Event::object_end || event == Event::array_end ? 1 : 0;
      is_shallow = is_shallow && depth <= kMostDepth;
      return is_shallow;
    };
    const Json json = Json::parse(text, watch, false);
    return is_shallow && json.is_object();
  }

  const Json& json_;
  std::string_view raw_;
  size_t index_;
};

// Gives ids and names to who lacks them: each result answers a call that came before it.
class IdFiller {
 public:
  void fill(MessageText* message) {
    if (message->role == CRIA_ASSISTANT && !message->calls.empty()) {
      open_.clear();
      for (CallText& call : message->calls) {
        if (call.id.empty()) call.id = next_id();
        open_.push_back(&call);
      }
    }
    if (message->role != CRIA_TOOL) return;
    const auto answered = std::find_if(open_.begin(), open_.end(), [&](const CallText* call) {
      if (!message->id.empty()) return call->id == message->id;
      return message->name.empty() || call->name == message->name;
    });
    if (answered == open_.end()) return;
    if (message->id.empty()) message->id = (*answered)->id;
    if (message->name.empty()) message->name = (*answered)->name;
    open_.erase(answered);
  }

 private:
  // The same for the same conversation. Some templates take no other ids.
  std::string next_id() { return text_of("call%05u", ++n_ids_ % 100000); }

  std::vector<const CallText*> open_;
  uint32_t n_ids_ = 0;
};

}  // namespace

uint64_t ConversationText::n_bytes() const {
  uint64_t n_bytes = 0;
  visit([&](const std::string& text) { n_bytes += text.size(); });
  return n_bytes;
}

ConversationView::ConversationView(const ConversationText& text, cria_chat_ending ending)
    : conversation_() {
  messages_.reserve(text.messages.size());
  calls_.reserve(text.messages.size());
  parts_.reserve(text.messages.size());
  for (const MessageText& m : text.messages) {
    messages_.push_back({m.role, m.text.data(), m.text.size()});
    std::vector<cria_call>& calls = calls_.emplace_back();
    for (const CallText& call : m.calls) {
      calls.push_back({view_of(call.name), view_of(call.arguments), view_of(call.id)});
    }
    parts_.push_back(
        {view_of(m.thinking), calls.data(), calls.size(), view_of(m.name), view_of(m.id)});
  }
  for (const std::string& tool : text.tools) tools_.push_back(view_of(tool));
  conversation_.messages = messages_.data();
  conversation_.n_messages = messages_.size();
  conversation_.ending = ending;
  conversation_.thinking = text.thinking;
  conversation_.parts = parts_.data();
  conversation_.tools = tools_.data();
  conversation_.n_tools = tools_.size();
}

ConversationError::ConversationError(const char* list, size_t index, std::string what)
    : list_(list),
      text_((list == kTools ? "tool " : "message ") + std::to_string(index + 1) + " " +
            std::move(what)) {}

std::vector<MessageText> read_messages(const Json& list, std::string_view raw) {
  const std::vector<std::string_view> texts = item_texts(raw);
  std::vector<MessageText> messages;
  messages.reserve(list.size());
  for (const Json& each : list) {
    const size_t index = messages.size();
    messages.push_back(MessageReader(each, texts[index], index).read());
  }
  IdFiller filler;
  for (MessageText& message : messages) filler.fill(&message);
  return messages;
}

std::vector<std::string> read_tools(const Json& list, std::string_view raw) {
  const std::vector<std::string_view> texts = item_texts(raw);
  std::vector<std::string> tools;
  tools.reserve(list.size());
  for (const Json& each : list) {
    const size_t index = tools.size();
    const auto refuse = [&](const std::string& what) -> void {
      throw ConversationError(kTools, index, what);
    };
    if (!each.is_object()) refuse("is no object");
    const Json* const type = member(each, "type");
    const bool is_function = type == nullptr || *type == "function";
    if (!is_function) {
      refuse("is of the type " + shown(type->is_string() ? type->get<std::string>() : "?") +
             "; functions alone are called");
    }
    const Json* const function = member(each, "function");
    const Json& described = function != nullptr ? *function : each;
    const Json* const name = described.is_object() ? member(described, "name") : nullptr;
    if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>().empty()) {
      refuse("has no name");
    }
    const Json* const parameters = member(described, "parameters");
    if (parameters != nullptr && !parameters->is_object()) {
      refuse("has parameters that are no object");
    }
    std::string text(texts[index]);
    tools.push_back(
        function != nullptr && type != nullptr
            ? text
            : R"({"type": "function", "function": )" +
                  (function != nullptr ? std::string(*member_text(text, "function")) : text) + "}");
  }
  return tools;
}

}  // namespace cria::hosted
