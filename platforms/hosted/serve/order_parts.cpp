#include "platforms/hosted/serve/order_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/sampling_fields.h"

namespace cria::hosted {
namespace {

constexpr const char* kFormat = "response_format";

void check_is_schema(const Json* schema) {
  if (schema != nullptr && (schema->is_object() || schema->is_boolean())) return;
  throw ApiError(ErrorKind::kInvalidRequest, "response_format has no schema that is an object",
                 kFormat);
}

// Tokens of a conversation that come before the text of its first question, whatever this is.
uint32_t lead_of(TextService* text, const Conversation& conversation,
                 const std::vector<uint32_t>& prompt) {
  const std::vector<ConversationMessage>& messages = conversation.messages;
  const auto question =
      std::find_if(messages.begin(), messages.end(),
                   [](const ConversationMessage& m) { return m.role == CRIA_USER; });
  if (question == messages.end()) return 0;
  Conversation other = {
      {messages.begin(), question + 1}, conversation.tools, conversation.thinking};
  other.messages.back().text = question->text.starts_with('a') ? "b" : "a";
  try {
    const std::vector<uint32_t> tokens = text->encode_chat(other, {}).tokens;
    const auto differs =
        std::mismatch(prompt.begin(), prompt.end(), tokens.begin(), tokens.end()).first;
    return static_cast<uint32_t>(differs - prompt.begin());
  } catch (const ApiError&) {  // the template refuses it
    return 0;
  }
}

// Throws ApiError unless calls can be held to their tools; where they need not be, they are not.
void set_call_grammar(const OrderContext& context, const RequestedConversation& asked,
                      const CallReading& reading, AnswerRequest* answer) {
  const ToolRules& rules = asked.rules;
  cria_call_order order = order_of(reading, rules.name);
  order.choice = CRIA_TOOLS_AUTO;
  if (rules.choice == ToolChoice::kNone) order.choice = CRIA_TOOLS_NONE;
  if (rules.choice == ToolChoice::kMustCall) {
    order.choice = rules.name.empty() ? CRIA_TOOLS_REQUIRED : CRIA_TOOLS_NAMED;
  }
  order.one_call = rules.takes_many ? 0 : 1;
  order.thinks = asked.text.thinking != CRIA_THINKING_OFF && context.text->thinks() ? 1 : 0;
  std::string problem;
  answer->guide = context.engine->schemas().compile(order, reading.opened, &problem);
  const bool is_held =
      rules.choice == ToolChoice::kMustCall || !rules.takes_many || asked.has_strict_tools();
  if (answer->guide != nullptr || !is_held) return;
  throw ApiError(ErrorKind::kInvalidRequest, problem, asked.members.tools);
}

// A document is text from its first byte on.
void set_reading(const OrderContext& context, const RequestedConversation& asked,
                 AnswerRequest* answer, AnswerOrder* order) {
  TextService& text = *context.text;
  const bool has_tools = !asked.text.tools.empty();
  const bool takes_calls = has_tools && asked.rules.choice != ToolChoice::kNone;
  if (takes_calls && answer->guide != nullptr) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   "an answer is a document or calls tools; choose one, or send tool_choice: none",
                   asked.members.tools);
  }
  if (answer->guide != nullptr || (!has_tools && !text.thinks())) return;
  auto reading = std::make_shared<CallReading>();
  reading->writing = text.writing();
  reading->tools = tools_json(asked.text);
  reading->opened = text.opening(asked.text);
  reading->takes_calls = takes_calls;
  answer->markers = text.writing()->markers;
  if (has_tools) set_call_grammar(context, asked, *reading, answer);
  order->reading = std::move(reading);
}

}  // namespace

void check_schema_words(const Fields& fields) {
  static_cast<void>(fields.flag("strict", false));
  static_cast<void>(fields.text("description"));
}

void refuse_format(const char* param, const std::string& type) {
  const std::string what = type.empty() ? " has no type" : " is of the type '" + shown(type) + "'";
  throw ApiError(ErrorKind::kInvalidRequest,
                 param + what + "; text, json_object and json_schema are known", param);
}

// An answer without its schema would be one to another request.
std::string_view text_of_schema(const std::string& body,
                                std::initializer_list<std::string_view> names) {
  const std::optional<std::string_view> text = raw_member(body, names);
  if (!text) throw ApiError(ErrorKind::kServer, "the schema was not found in the body");
  return *text;
}

void read_how_told(const OrderContext& context, const RequestFields& fields, AnswerOrder* order) {
  constexpr size_t kMostNameBytes = 256;
  order->model = fields.text("model").value_or(context.model_name);
  if (order->model.empty() || order->model.size() > kMostNameBytes) {
    order->model = context.model_name;
  }
  order->streams = fields.flag("stream", false);
  if (const Json* const options = fields.object("stream_options")) {
    order->includes_usage = Fields(*options).flag("include_usage", false);
  }
  order->tells_timings = fields.flag("timings_per_token", false);
}

uint32_t flag_to_parse(const RequestFields& fields) {
  return fields.flag("parse_special", true) ? +CRIA_ENCODE_PARSE : 0;
}

void read_format(const OrderContext& context, const RequestFields& fields, const std::string& body,
                 AnswerRequest* request) {
  if (const Json* const schema = fields.find("json_schema")) {
    if (!schema->is_object() && !schema->is_boolean()) {
      throw ApiError(ErrorKind::kInvalidRequest, "json_schema must be a schema", "json_schema");
    }
    set_schema(context, fields, text_of_schema(body, {"json_schema"}), "json_schema", request);
  }
  const Json* const format = fields.object("response_format");
  if (format == nullptr) return;
  const Fields members(*format);
  const std::string type = members.text("type").value_or("");
  if (type == "text") return;
  if (request->guide != nullptr) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   "response_format and json_schema cannot be combined; send one", kFormat);
  }
  if (type == "json_object") {
    const Json* const schema = members.find("schema");
    if (schema == nullptr) return set_schema(context, fields, kAnyObject, kFormat, request);
    check_is_schema(schema);
    return set_schema(context, fields, text_of_schema(body, {kFormat, "schema"}), kFormat, request);
  }
  if (type == "json_schema") {
    const Json* const named = members.object("json_schema");
    if (named == nullptr) check_is_schema(nullptr);
    const Fields named_members(*named);
    check_is_schema(named_members.find("schema"));
    check_schema_words(named_members);
    return set_schema(context, fields, text_of_schema(body, {kFormat, "json_schema", "schema"}),
                      kFormat, request);
  }
  refuse_format(kFormat, type);
}

void put_prompt(const OrderContext& context, Encoded prompt, AnswerRequest answer,
                AnswerOrder* order) {
  check_prompt(context, prompt);
  answer.prompt = std::move(prompt.tokens);
  order->add_prompt(std::move(answer));
}

void put_conversation(const OrderContext& context, const RequestedConversation& asked,
                      AnswerRequest answer, AnswerOrder* order) {
  Encoded prompt = context.text->encode_chat(asked.text, asked.members);
  check_prompt(context, prompt);
  if (context.engine->keeps_prefixes()) {
    answer.n_lead = lead_of(context.text, asked.text, prompt.tokens);
  }
  if (context.engine->keeps_snapshots() && context.text->thinks()) {
    answer.n_turn = context.text->n_lasting(asked.text, prompt.tokens);
  }
  set_reading(context, asked, &answer, order);
  put_prompt(context, std::move(prompt), std::move(answer), order);
}

void check_answer_size(const OrderContext& context, const AnswerOrder& order) {
  const AnswerRequest& first = order.prompts[0];
  if (order.streams || !order.tells_tokens() || !first.max_tokens) return;
  const size_t n_tokens =
      std::min(*first.max_tokens, cria_context(context.model.session())) * size_t{first.n_choices};
  const size_t n_bytes = bytes_of_tokens(n_tokens * order.prompts.size(), order.n_top.value_or(0));
  if (n_bytes <= kMostAnswerBytes) return;
  throw ApiError(ErrorKind::kInvalidRequest,
                 text_of("max_tokens for so many answers with their probabilities needs %zu bytes "
                         "and an answer holds at most %zu; ask for less, or stream it",
                         n_bytes, kMostAnswerBytes),
                 "max_tokens");
}

}  // namespace cria::hosted
