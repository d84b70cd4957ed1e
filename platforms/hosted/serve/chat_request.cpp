// The body of /v1/chat/completions.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/sampling_fields.h"
#include "platforms/hosted/session/model_text.h"

namespace cria::hosted {
namespace {

[[noreturn]] void refuse(size_t index, const std::string& what) {
  throw ApiError(ErrorKind::kInvalidRequest, text_of("message %zu ", index + 1) + what, "messages");
}

std::string text_of_content(const Json& content, size_t index) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    refuse(index, "has a content that is neither a text nor a list of parts");
  std::string text;
  for (const Json& part : content) {
    const bool is_object = part.is_object();
    const auto type = is_object ? part.find("type") : part.end();
    if (type == part.end() || !type->is_string()) refuse(index, "has a part without a type");
    if (type->get_ref<const std::string&>() != "text") {  // Json's own comparison cannot fail
      refuse(index, "has a part of the type '" + shown(type->get<std::string>()) +
                        "'; this model reads text alone");
    }
    const auto value = part.find("text");
    if (value == part.end() || !value->is_string()) refuse(index, "has a text part without text");
    text += value->get<std::string>();
  }
  return text;
}

ChatMessage read_message(const Json& json, size_t index) {
  if (!json.is_object()) refuse(index, "is no object with role and content");
  const Fields fields(json);
  const Json* const role = fields.find("role");
  if (role == nullptr || !role->is_string()) refuse(index, "has no role");
  const std::string name = role->get<std::string>();
  const Json* const calls = fields.find("tool_calls");
  if (name == "tool" || name == "function" || (calls != nullptr && !calls->empty())) {
    refuse(index, "is about a tool; tools are not supported");
  }
  const std::optional<cria_role> known = role_of(name);
  if (!known) {
    refuse(index, "has the role '" + shown(name) + "'; system, user and assistant are known");
  }
  const Json* const content = fields.find("content");
  if (content == nullptr) refuse(index, "has no content");
  return {*known, text_of_content(*content, index)};
}

// Tokens of a conversation that come before the text of its first question, whatever this is.
uint32_t lead_of(TextService* text, const std::vector<ChatMessage>& messages,
                 const std::vector<uint32_t>& prompt) {
  const auto question = std::find_if(messages.begin(), messages.end(),
                                     [](const ChatMessage& m) { return m.role == CRIA_USER; });
  if (question == messages.end()) return 0;
  std::vector<ChatMessage> other(messages.begin(), question + 1);
  other.back().text = question->text.starts_with('a') ? "b" : "a";
  try {
    const std::vector<uint32_t> tokens = text->encode_chat(other).tokens;
    const auto differs =
        std::mismatch(prompt.begin(), prompt.end(), tokens.begin(), tokens.end()).first;
    return static_cast<uint32_t>(differs - prompt.begin());
  } catch (const ApiError&) {  // the template refuses it
    return 0;
  }
}

}  // namespace

std::vector<ChatMessage> chat_messages(const Json& request) {
  const Json* const list = RequestFields(request).list("messages");
  if (list == nullptr || list->empty()) {
    throw ApiError(ErrorKind::kInvalidRequest, "messages must be a list of at least one message",
                   "messages");
  }
  std::vector<ChatMessage> messages;
  messages.reserve(list->size());
  for (const Json& each : *list) messages.push_back(read_message(each, messages.size()));
  return messages;
}

AnswerOrder chat_order(const OrderContext& context, const Json& request, const std::string& body) {
  const RequestFields fields(request);
  AnswerOrder order;
  order.style = AnswerStyle::kChat;
  refuse_unsupported(fields);
  read_how_told(context, fields, &order);
  const std::vector<ChatMessage> messages = chat_messages(request);
  AnswerRequest answer;
  read_sampling(context, fields, &answer);
  read_format(context, fields, body, &answer);
  Encoded prompt = context.text->encode_chat(messages);
  check_prompt(context, prompt);
  answer.prompt = std::move(prompt.tokens);
  if (context.engine->keeps_prefixes()) {
    answer.n_lead = lead_of(context.text, messages, answer.prompt);
  }
  order.add_prompt(std::move(answer));
  check_answer_size(context, order);
  return order;
}

}  // namespace cria::hosted
