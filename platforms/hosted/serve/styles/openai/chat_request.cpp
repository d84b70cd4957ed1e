// The body of /v1/chat/completions.
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/message_fields.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/sampling_fields.h"
#include "platforms/hosted/serve/styles/openai/openai.h"

namespace cria::hosted {
namespace {

std::string text_of_content(const Json& content, size_t index) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    refuse_message(index, "has a content that is neither a text nor a list of parts");
  std::string text;
  for (const Json& part : content) {
    const bool is_object = part.is_object();
    const auto type = is_object ? part.find("type") : part.end();
    if (type == part.end() || !type->is_string())
      refuse_message(index, "has a part without a type");
    if (type->get_ref<const std::string&>() != "text") {  // Json's own comparison cannot fail
      refuse_message(index, "has a part of the type '" + shown(type->get<std::string>()) +
                                "'; this model reads text alone");
    }
    const auto value = part.find("text");
    if (value == part.end() || !value->is_string())
      refuse_message(index, "has a text part without text");
    text += value->get<std::string>();
  }
  return text;
}

ChatMessage read_message(const Json& json, size_t index) {
  if (!json.is_object()) refuse_message(index, "is no object with role and content");
  const Fields fields(json);
  const cria_role role = read_role(fields, index);
  const Json* const content = fields.find("content");
  if (content != nullptr) return {role, text_of_content(*content, index)};
  if (role != CRIA_ASSISTANT) refuse_message(index, "has no content");
  return {role, std::string()};
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
  order.make_writer = &make_chat_writer;
  refuse_unsupported(fields);
  read_how_told(context, fields, &order);
  const std::vector<ChatMessage> messages = chat_messages(request);
  AnswerRequest answer;
  read_sampling(context, fields, &answer);
  read_format(context, fields, body, &answer);
  put_conversation(context, messages, std::move(answer), &order);
  check_answer_size(context, order);
  return order;
}

}  // namespace cria::hosted
