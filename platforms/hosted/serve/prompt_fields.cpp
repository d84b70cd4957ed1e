#include "platforms/hosted/serve/prompt_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/sampling_fields.h"

namespace cria::hosted {
namespace {

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

// Ids and texts in one sequence; only the first gets what begins a text.
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
      refuse("has multimodal_data; this model reads only text");
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
void tell_prompt(const OrderContext& context, const Prompt& prompt, PromptTold told,
                 AnswerOrder* order, size_t* n_told_bytes) {
  const bool is_said = prompt.is_text_alone && told == PromptTold::kAsSent;
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

}  // namespace

void read_prompts(const OrderContext& context, const RequestFields& fields,
                  const AnswerRequest& answer, PromptTold told, AnswerOrder* order) {
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
    if (told != PromptTold::kNot) tell_prompt(context, prompt, told, order, &n_told_bytes);
    request.prompt = std::move(prompt.encoded.tokens);
    order->add_prompt(std::move(request));
  }
}

}  // namespace cria::hosted
