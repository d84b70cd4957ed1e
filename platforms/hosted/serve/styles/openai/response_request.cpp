// The body of /v1/responses. Nothing is stored: what comes before is in each request.
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/conversation_fields.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/sampling_fields.h"
#include "platforms/hosted/serve/styles/openai/openai.h"
#include "platforms/hosted/serve/styles/openai/response_input.h"

namespace cria::hosted {
namespace {

[[noreturn]] void refuse(const char* param, const std::string& what) {
  throw ApiError(ErrorKind::kInvalidRequest, what, param);
}

RequestedConversation read_asked(const OrderContext& context, const RequestFields& fields,
                                 const std::string& body) {
  RequestedConversation asked;
  asked.members.messages = "input";
  if (const auto instructions = fields.text("instructions")) {
    asked.text.messages.push_back({CRIA_SYSTEM, *instructions});
  }
  const Json* const input = fields.find("input");
  if (input == nullptr) refuse("input", "input must be a text or a list of items");
  read_input(*input, &asked.text);
  read_member(fields.list("tools"), body, "tools", &read_response_tools, &asked.text);
  read_tool_rules(context, fields, &asked);
  context.text->complete(&asked.text, asked.members);
  const Json* const reasoning = fields.object("reasoning");
  asked.text.thinking = read_thinking(
      fields, reasoning == nullptr ? std::nullopt : Fields(*reasoning).text("effort"));
  return asked;
}

// text.format: what chats have in response_format.
void read_text_format(const OrderContext& context, const RequestFields& fields,
                      const std::string& body, AnswerRequest* request) {
  constexpr const char* kParam = "text.format";
  const Json* const text = fields.object("text");
  const Json* const format = text == nullptr ? nullptr : Fields(*text).object("format");
  if (format == nullptr) return;
  const std::string type = Fields(*format).text("type").value_or("");
  if (type == "text") return;
  if (type == "json_object") return set_schema(context, fields, kAnyObject, kParam, request);
  if (type != "json_schema") refuse_format(kParam, type);
  const Json* const schema = Fields(*format).find("schema");
  if (schema == nullptr || (!schema->is_object() && !schema->is_boolean())) {
    refuse(kParam, "text.format has no schema that is an object");
  }
  check_schema_words(Fields(*format));
  set_schema(context, fields, text_of_schema(body, {"text", "format", "schema"}), kParam, request);
}

// What the response says again of the request.
JsonText echo_of(const AnswerRequest& answer, const RequestFields& fields,
                 const std::string& body) {
  const auto as_sent = [&body](const char* name, const char* usual) {
    return JsonText::of(std::string(raw_member(body, {name}).value_or(usual)));
  };
  return JsonText::object({{"instructions", as_sent("instructions", "null")},
                           {"max_output_tokens", answer.max_tokens},
                           {"metadata", as_sent("metadata", "{}")},
                           {"parallel_tool_calls", fields.flag("parallel_tool_calls", true)},
                           {"previous_response_id", nullptr},
                           {"reasoning", as_sent("reasoning", R"({"effort":null,"summary":null})")},
                           {"store", false},
                           {"temperature", answer.sampling.temperature},
                           {"text", as_sent("text", R"({"format":{"type":"text"}})")},
                           {"tool_choice", as_sent("tool_choice", "\"auto\"")},
                           {"tools", as_sent("tools", "[]")},
                           {"top_p", answer.sampling.top_p},
                           {"truncation", "disabled"}});
}

}  // namespace

AnswerOrder response_order(const OrderContext& context, const Json& request,
                           const std::string& body) {
  const RequestFields fields(request);
  AnswerOrder order;
  order.make_writer = &make_response_writer;
  refuse_unsupported(fields);
  static_cast<void>(fields.object("metadata"));  // said again as it was sent
  refuse_present(fields, {"functions", "logprobs", "top_logprobs", "n", "prompt"});
  for (const MemberName name :
       {MemberName("previous_response_id"), MemberName("conversation"), MemberName("background")}) {
    const Json* const found = fields.find(name);
    if (found == nullptr || *found == false) continue;
    refuse(name, std::string(name) + ": responses are not stored; send what came before in input");
  }
  read_how_told(context, fields, &order);
  const RequestedConversation asked = read_asked(context, fields, body);
  AnswerRequest answer;
  read_sampling(context, fields, &answer);
  read_text_format(context, fields, body, &answer);
  order.settings = echo_of(answer, fields, body);
  put_conversation(context, asked, std::move(answer), &order);
  return order;
}

}  // namespace cria::hosted
