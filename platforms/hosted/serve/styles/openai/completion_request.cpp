// The body of /v1/completions.
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/prompt_fields.h"
#include "platforms/hosted/serve/sampling_fields.h"
#include "platforms/hosted/serve/styles/openai/openai.h"

namespace cria::hosted {

AnswerOrder text_order(const OrderContext& context, const Json& request, const std::string& body) {
  const RequestFields fields(request);
  AnswerOrder order;
  order.make_writer = &make_text_writer;
  refuse_unsupported(fields);
  refuse_tools(fields);
  read_how_told(context, fields, &order);
  AnswerRequest answer;
  read_sampling(context, fields, &answer);
  read_format(context, fields, body, &answer);
  const bool echoes = fields.flag("echo", false);
  if (echoes && answer.n_top) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   "echo with logprobs is not supported: those of the prompt are not computed",
                   "echo");
  }
  read_prompts(context, fields, answer, echoes ? PromptTold::kAsSent : PromptTold::kNot, &order);
  check_answer_size(context, order);
  return order;
}

}  // namespace cria::hosted
