// The bodies of /api/chat and /api/generate.
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/conversation_fields.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/sampling_fields.h"
#include "platforms/hosted/serve/styles/ollama/ollama.h"
#include "platforms/hosted/serve/styles/ollama/ollama_fields.h"

namespace cria::hosted {
namespace {

// A text that is continued: control tokens that it writes out are those tokens, as in llama.cpp's
// completions.
Encoded encode_text(const OrderContext& context, const std::string& text) {
  return context.text->encode(text, CRIA_ENCODE_SPECIAL | CRIA_ENCODE_PARSE);
}

void put_generate(const OrderContext& context, const RequestFields& fields, std::string prompt,
                  cria_thinking thinking, AnswerRequest answer, AnswerOrder* order) {
  const std::string system = fields.text("system").value_or(std::string());
  if (fields.flag("raw", false)) {
    if (!system.empty()) {
      throw ApiError(ErrorKind::kInvalidRequest,
                     "raw mode does not support template, system, or context", "system");
    }
    return put_prompt(context, encode_text(context, prompt), std::move(answer), order);
  }
  if (!context.text->has_chat()) {
    if (!system.empty()) {
      throw ApiError(ErrorKind::kInvalidRequest,
                     "system needs a chat template, and the model has none", "system");
    }
    return put_prompt(context, encode_text(context, prompt), std::move(answer), order);
  }
  RequestedConversation asked;
  if (!system.empty()) asked.text.messages.push_back({CRIA_SYSTEM, system});
  asked.text.messages.push_back({CRIA_USER, std::move(prompt)});
  asked.text.thinking = thinking;
  put_conversation(context, asked, std::move(answer), order);
}

}  // namespace

AnswerOrder ollama_chat_order(const OrderContext& context, const Json& request,
                              const std::string& body) {
  const RequestFields fields(request);
  AnswerOrder order;
  AnswerRequest answer;
  order.make_writer = &make_ollama_chat_writer;
  const cria_thinking thinking = read_ollama_fields(context, fields, body, &order, &answer);
  const char* const done_reason = ollama_done_reason(fields);
  const Json* const list = fields.list("messages");
  if (list == nullptr || list->empty()) {
    order.whole_answer = ollama_chat_without_text(order.model, done_reason);
    return order;
  }
  RequestedConversation asked = read_conversation(context, fields, body);
  asked.text.thinking = thinking;
  put_conversation(context, asked, std::move(answer), &order);
  return order;
}

AnswerOrder ollama_generate_order(const OrderContext& context, const Json& request,
                                  const std::string& body) {
  const RequestFields fields(request);
  AnswerOrder order;
  AnswerRequest answer;
  order.make_writer = &make_ollama_generate_writer;
  const cria_thinking thinking = read_ollama_fields(context, fields, body, &order, &answer);
  refuse_tools(fields);
  refuse_present(fields, {"images", "template", "context"});
  const char* const done_reason = ollama_done_reason(fields);
  std::string prompt = fields.text("prompt").value_or(std::string());
  if (prompt.empty()) {
    order.whole_answer = ollama_generate_without_text(order.model, done_reason);
    return order;
  }
  put_generate(context, fields, std::move(prompt), thinking, std::move(answer), &order);
  return order;
}

}  // namespace cria::hosted
