#include "platforms/hosted/serve/styles/openai/response_input.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/chat/conversation_json.h"
#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/session/model_text.h"

namespace cria::hosted {
namespace {

class InputReader {
 public:
  explicit InputReader(Conversation* conversation) : messages_(conversation->messages) {}

  void read(const Json& item) {
    ++n_items_;
    if (!item.is_object()) refuse("is not an object");
    const std::string type = text_in(item, "type").value_or("message");
    if (type == "message") return read_message_item(item);
    if (type == "function_call") return read_call(item);
    if (type == "function_call_output") return read_output(item);
    if (type == "reasoning") return read_reasoning(item);
    if (type == "item_reference")
      refuse("refers to another item, but nothing is stored; send the whole item");
    refuse("is of the type '" + shown(type) +
           "'; message, function_call, function_call_output and reasoning are known");
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ApiError(ErrorKind::kInvalidRequest,
                   "input item " + std::to_string(n_items_) + " " + what, "input");
  }

  [[nodiscard]] std::optional<std::string> text_in(const Json& object, const char* name) const {
    const Json* const found = Fields(object).find(name);
    if (found == nullptr) return std::nullopt;
    if (!found->is_string()) refuse(std::string("has no text as its ") + name);
    return found->get<std::string>();
  }

  // A text, or parts of these types.
  [[nodiscard]] std::string text_of_parts(const Json* content,
                                          std::initializer_list<const char*> types) const {
    if (content == nullptr) refuse("has no content");
    if (content->is_string()) return content->get<std::string>();
    if (!content->is_array()) refuse("has a content that is neither a text nor a list of parts");
    std::string text;
    for (const Json& part : *content) {
      if (!part.is_object()) refuse("has a part that is not an object");
      const std::string type = text_in(part, "type").value_or("");
      if (type.empty()) refuse("has a part without a type");
      if (std::find(types.begin(), types.end(), type) == types.end()) {
        refuse("has a part of the type '" + shown(type) + "'; this model reads only text");
      }
      const std::optional<std::string> told = text_in(part, type == "refusal" ? "refusal" : "text");
      if (!told) refuse("has a part without text");
      text += *told;
    }
    return text;
  }

  void read_message_item(const Json& item) {
    const std::string role = text_in(item, "role").value_or("");
    const std::optional<cria_role> known = role_of(role);
    if (!known || *known == CRIA_TOOL) {
      refuse("has the role '" + shown(role) + "'; user, system, developer and assistant are known");
    }
    ConversationMessage message = {*known,
                                   text_of_parts(Fields(item).find("content"),
                                                 {"input_text", "output_text", "text", "refusal"})};
    if (*known == CRIA_ASSISTANT) message.thinking = std::exchange(thinking_, {});
    messages_.push_back(std::move(message));
  }

  void read_call(const Json& item) {
    ConversationCall call = {text_in(item, "name").value_or(""),
                             text_in(item, "arguments").value_or(""),
                             text_in(item, "call_id").value_or("")};
    if (call.name.empty()) refuse("is a call without a name");
    if (const std::string wrong = complete_arguments(&call.arguments); !wrong.empty()) {
      refuse("is a call of '" + shown(call.name) + "' whose arguments " + wrong);
    }
    if (messages_.empty() || messages_.back().role != CRIA_ASSISTANT || !thinking_.empty()) {
      messages_.push_back({CRIA_ASSISTANT, {}, std::exchange(thinking_, {})});
    }
    messages_.back().calls.push_back(std::move(call));
  }

  void read_output(const Json& item) {
    ConversationMessage message = {CRIA_TOOL, text_of_parts(Fields(item).find("output"),
                                                            {"input_text", "output_text", "text"})};
    message.id = text_in(item, "call_id").value_or("");
    messages_.push_back(std::move(message));
  }

  // Its content, or where there is none the summary.
  void read_reasoning(const Json& item) {
    for (const char* const name : {"content", "summary"}) {
      const Json* const parts = Fields(item).find(name);
      if (parts == nullptr || parts->empty()) continue;
      thinking_ += text_of_parts(parts, {"reasoning_text", "summary_text", "text"});
      return;
    }
  }

  std::vector<ConversationMessage>& messages_;
  size_t n_items_ = 0;
  std::string thinking_;  // of the answer that comes next
};

// A function as chats have it: what a template prints has its members in this order.
std::string function_of(std::string_view raw) {
  std::string function;
  for (const char* const name : {"name", "description", "parameters"}) {
    const std::string_view value = raw_member(raw, {name}).value_or("null");
    if (value == "null") continue;
    function += (function.empty() ? "\"" : ", \"") + std::string(name) + "\": ";
    function += value;
  }
  if (raw_member(raw, {"strict"}) == "true") function += R"(, "strict": true)";
  return "{" + function + "}";
}

}  // namespace

void read_input(const Json& input, Conversation* conversation) {
  if (input.is_string()) {
    conversation->messages.push_back({CRIA_USER, input.get<std::string>()});
    return;
  }
  if (!input.is_array() || input.empty()) {
    throw ApiError(ErrorKind::kInvalidRequest, "input must be a text or a list of items", "input");
  }
  InputReader reader(conversation);
  for (const Json& item : input) reader.read(item);
  name_results(conversation);
}

void read_response_tools(const Json& list, std::string_view raw, Conversation* conversation) {
  constexpr const char* kTools = "tools";
  const std::vector<std::string_view> raws = raw_elements(raw);
  for (size_t i = 0; i < list.size() && i < raws.size(); ++i) {
    const Json* const type = list[i].is_object() ? Fields(list[i]).find("type") : nullptr;
    const Json* const name = list[i].is_object() ? Fields(list[i]).find("name") : nullptr;
    if (type == nullptr || *type != "function" || name == nullptr || !name->is_string()) {
      refuse_tool(i, list[i], R"({"type": "function", "name": ...})");
    }
    check_function(kTools, i, list[i]);
    add_function(function_of(raws[i]), conversation);
  }
  check_tools(kTools, *conversation);
}

}  // namespace cria::hosted
