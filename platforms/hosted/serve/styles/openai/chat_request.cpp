// The body of /v1/chat/completions.
#include <utility>

#include "platforms/hosted/serve/conversation_fields.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/sampling_fields.h"
#include "platforms/hosted/serve/styles/openai/openai.h"

namespace cria::hosted {

AnswerOrder chat_order(const OrderContext& context, const Json& request, const std::string& body) {
  const RequestFields fields(request);
  AnswerOrder order;
  order.make_writer = &make_chat_writer;
  refuse_unsupported(fields);
  read_how_told(context, fields, &order);
  RequestedConversation asked = read_conversation(context, fields, body);
  asked.text.thinking = read_thinking(fields, fields.text("reasoning_effort"));
  order.calls_are_functions = asked.rules.are_functions;
  AnswerRequest answer;
  read_sampling(context, fields, &answer);
  read_format(context, fields, body, &answer);
  put_conversation(context, asked, std::move(answer), &order);
  check_answer_size(context, order);
  return order;
}

}  // namespace cria::hosted
