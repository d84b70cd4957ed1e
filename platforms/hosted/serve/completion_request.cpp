// The bodies of /v1/completions and of llama.cpp's /completion.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/sampling_fields.h"

namespace cria::hosted {
namespace {

constexpr std::string_view kSettingPrefix = "generation_settings/";

[[noreturn]] void refuse(const std::string& what) {
  throw ApiError(ErrorKind::kInvalidRequest, "prompt " + what, "prompt");
}

struct Prompt {
  Encoded encoded;
  bool is_text_alone = false;
  std::string text;
};

// parses: CRIA_ENCODE_PARSE or 0.
Prompt prompt_of_text(const OrderContext& context, std::string text, uint32_t parses) {
  Prompt prompt;
  prompt.encoded = context.text->encode(text, CRIA_ENCODE_SPECIAL | parses);
  prompt.is_text_alone = true;
  prompt.text = std::move(text);
  return prompt;
}

// Ids and texts in one sequence; the first alone gets what begins a text.
Prompt prompt_of_list(const OrderContext& context, const Json& list, uint32_t parses) {
  Prompt prompt;
  Encoded& all = prompt.encoded;
  all = {};
  bool is_first = true;
  for (const Json& part : list) {
    if (part.is_string()) {
      const uint32_t special = is_first ? +CRIA_ENCODE_SPECIAL : 0;
      const Encoded encoded = context.text->encode(part.get<std::string>(), special | parses);
      all.is_counted = all.is_counted || encoded.is_counted;
      all.n_tokens += encoded.n_tokens;
      all.tokens.insert(all.tokens.end(), encoded.tokens.begin(), encoded.tokens.end());
    } else {
      all.tokens.push_back(token_id(part, context.model.info().vocab_size, "prompt"));
      ++all.n_tokens;
    }
    is_first = false;
  }
  return prompt;
}

Prompt prompt_of(const OrderContext& context, const Json& json, uint32_t parses) {
  if (json.is_string()) return prompt_of_text(context, json.get<std::string>(), parses);
  if (json.is_object()) {
    const Fields fields(json);
    if (const Json* data = fields.find("multimodal_data"); data != nullptr && !data->empty()) {
      refuse("has multimodal_data; this model reads text alone");
    }
    std::optional<std::string> text = fields.text("prompt_string");
    if (!text) refuse("is an object without prompt_string");
    return prompt_of_text(context, std::move(*text), parses);
  }
  if (json.is_array()) return prompt_of_list(context, json, parses);
  refuse("must be a text, a list of token ids, or a list of those");
}

// Whether a list is one of prompts, and not one prompt in parts.
bool is_list_of_prompts(const Json& list) {
  const bool has_ids =
      std::any_of(list.begin(), list.end(), [](const Json& part) { return part.is_number(); });
  return !has_ids;
}

// Written here once for all choices, and not on the network thread: it may be long.
void tell_prompt(const OrderContext& context, const Prompt& prompt, AnswerOrder* order,
                 size_t* n_told_bytes) {
  const bool is_said = prompt.is_text_alone && order->style == AnswerStyle::kText;
  JsonText text = std::string();
  if (is_said) {
    text = prompt.text;
  } else if (context.text->has_tokenizer()) {
    text = context.text->decode(prompt.encoded.tokens, true);
  }
  *n_told_bytes += text.text().size();
  if (*n_told_bytes > kMostAnswerBytes) {
    refuse(
        text_of("is told in an answer of more than the %zu bytes that one holds; ask for fewer, "
                "or without echo or the response field prompt",
                kMostAnswerBytes));
  }
  order->prompt_texts.push_back(std::move(text));
}

void read_prompts(const OrderContext& context, const RequestFields& fields,
                  const AnswerRequest& answer, AnswerOrder* order, bool wants_texts) {
  const Json* const json = fields.find("prompt");
  if (json == nullptr) refuse("is missing");
  std::vector<const Json*> list;
  if (json->is_array()) check_text_bytes(*json, context.text->max_request_bytes(), "prompt");
  if (json->is_array() && is_list_of_prompts(*json)) {
    for (const Json& each : *json) list.push_back(&each);
  } else {
    list.push_back(json);
  }
  if (list.empty()) refuse("is an empty list");
  order->is_batch = list.size() > 1;
  if (list.size() > context.most_prompts) {
    refuse(text_of("has more than %u prompts", context.most_prompts));
  }
  const uint32_t parses = flag_to_parse(fields);
  size_t n_told_bytes = 0;
  for (const Json* each : list) {
    Prompt prompt = prompt_of(context, *each, parses);
    check_prompt(context, prompt.encoded);
    AnswerRequest request = answer;
    request.begins_text = prompt.is_text_alone && prompt.text.empty();
    if (wants_texts) tell_prompt(context, prompt, order, &n_told_bytes);
    request.prompt = std::move(prompt.encoded.tokens);
    order->add_prompt(std::move(request));
  }
}

// What /completion says of how it was asked.
JsonText settings_of(const AnswerRequest& answer, const AnswerOrder& order, bool ignores_end) {
  const cria_sampling& s = answer.sampling;
  JsonText stops = JsonText::array();
  for (size_t i = 0; answer.stops != nullptr && i < answer.stops->size(); ++i) {
    stops.push_back(answer.stops->at(i));
  }
  const JsonText limit = answer.max_tokens ? JsonText(*answer.max_tokens) : JsonText(-1);
  return JsonText::object({{"n_predict", limit},
                           {"max_tokens", limit},
                           {"seed", answer.seed},
                           {"temperature", s.temperature},
                           {"top_k", s.top_k},
                           {"top_p", s.top_p},
                           {"min_p", s.min_p},
                           {"repeat_last_n", CRIA_PENALTY_TOKENS},
                           {"repeat_penalty", s.repeat_penalty},
                           {"presence_penalty", s.presence_penalty},
                           {"frequency_penalty", s.frequency_penalty},
                           {"stop", stops},
                           {"ignore_eos", ignores_end},
                           {"stream", order.streams},
                           {"n_probs", answer.n_top.value_or(0)},
                           {"n", answer.n_choices},
                           {"timings_per_token", order.tells_timings}});
}

[[noreturn]] void refuse_fields(const std::string& what) {
  throw ApiError(ErrorKind::kInvalidRequest, "response_fields " + what, "response_fields");
}

// What they say of the settings is looked up here, once for all choices.
void read_response_fields(const RequestFields& fields, AnswerOrder* order) {
  constexpr size_t kMostFields = 64;
  constexpr size_t kMostFieldBytes = 256;
  const Json* const wanted = fields.list("response_fields");
  if (wanted == nullptr) return;
  if (wanted->size() > kMostFields) refuse_fields(text_of("are at most %zu", kMostFields));
  for (const Json& each : *wanted) {
    if (!each.is_string()) refuse_fields("must be a list of texts");
    std::string path = each.get<std::string>();
    if (path.size() > kMostFieldBytes) {
      refuse_fields(text_of("have at most %zu bytes each", kMostFieldBytes));
    }
    const bool is_there =
        std::any_of(order->response_fields.begin(), order->response_fields.end(),
                    [&](const ResponseField& field) { return field.path == path; });
    if (is_there) continue;
    std::string setting;
    if (path.starts_with(kSettingPrefix)) {
      setting =
          raw_path(order->settings.text(), std::string_view(path).substr(kSettingPrefix.size()));
    }
    order->response_fields.push_back({std::move(path), std::move(setting)});
  }
}

bool tells_prompt(const AnswerOrder& order) {
  const std::vector<ResponseField>& fields = order.response_fields;
  return fields.empty() || std::any_of(fields.begin(), fields.end(),
                                       [](const auto& field) { return field.path == "prompt"; });
}

}  // namespace

AnswerOrder text_order(const OrderContext& context, const Json& request, const std::string& body) {
  const RequestFields fields(request);
  AnswerOrder order;
  order.style = AnswerStyle::kText;
  refuse_unsupported(fields);
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
  read_prompts(context, fields, answer, &order, echoes);
  check_answer_size(context, order);
  return order;
}

AnswerOrder native_order(const OrderContext& context, const Json& request,
                         const std::string& body) {
  const RequestFields fields(request);
  AnswerOrder order;
  order.style = AnswerStyle::kNative;
  refuse_unsupported(fields);
  read_how_told(context, fields, &order);
  order.returns_tokens = fields.flag("return_tokens", false);
  AnswerRequest answer;
  read_sampling(context, fields, &answer);
  read_format(context, fields, body, &answer);
  order.settings = settings_of(answer, order, ignores_end(fields));
  read_response_fields(fields, &order);
  read_prompts(context, fields, answer, &order, order.streams || tells_prompt(order));
  check_answer_size(context, order);
  return order;
}

}  // namespace cria::hosted
