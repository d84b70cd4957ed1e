#include "platforms/hosted/serve/styles/ollama/ollama_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/sampling_fields.h"
#include "platforms/hosted/serve/styles/ollama/ollama_model.h"
#include "platforms/hosted/session/sampling_bounds.h"

namespace cria::hosted {
namespace {

// The window of penalties is of CRIA_PENALTY_TOKENS; other lengths than none are that one. num_ctx
// is looked at and no more: the context was planned when the server began.
void read_options(const OrderContext& context, const RequestFields& fields, AnswerRequest* answer) {
  static const Json none = Json::object();
  const Json* const found = fields.object("options");
  const Fields options(found == nullptr ? none : *found);
  constexpr int64_t kMost = kCountBounds.high;
  read_draws(context, options, answer);
  (void)options.integer("num_ctx", 0, kMost);
  if (const auto limit = options.integer("num_predict", -2, kMost); limit && *limit > 0) {
    answer->max_tokens = static_cast<uint32_t>(*limit);
  }
  if (options.integer("repeat_last_n", -1, kMost) == 0) {
    answer->sampling.repeat_penalty = 1.0f;
    answer->sampling.frequency_penalty = 0.0f;
    answer->sampling.presence_penalty = 0.0f;
  }
}

void read_ollama_format(const OrderContext& context, const RequestFields& fields,
                        const std::string& body, AnswerRequest* answer) {
  const Json* const format = fields.find("format");
  if (format == nullptr) return;
  if (format->is_object()) {
    return set_schema(context, fields, text_of_schema(body, {"format"}), "format", answer);
  }
  const std::string name = format->is_string() ? format->get<std::string>() : format->dump();
  if (name.empty()) return;
  if (format->is_string() && name == "json") {
    return set_schema(context, fields, kAnyObject, "format", answer);
  }
  throw ApiError(
      ErrorKind::kInvalidRequest,
      "invalid format: " + shown(name) + R"(; expected "json" or a valid JSON Schema object)",
      "format");
}

cria_thinking read_think(const OrderContext& context, const RequestFields& fields,
                         const std::string& model) {
  const Json* const think = fields.find("think");
  if (think == nullptr) return CRIA_THINKING_DEFAULT;
  constexpr std::string_view kLevels[] = {"low", "medium", "high"};
  const bool is_level =
      think->is_string() && std::find(std::begin(kLevels), std::end(kLevels),
                                      think->get_ref<const std::string&>()) != std::end(kLevels);
  if (!think->is_boolean() && !is_level) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   R"(think must be true, false, "low", "medium" or "high")", "think");
  }
  const bool is_wanted = is_level || think->get<bool>();
  if (!is_wanted) return CRIA_THINKING_OFF;
  if (has_ollama_capability(context, "thinking")) return CRIA_THINKING_ON;
  throw ApiError(ErrorKind::kInvalidRequest, '"' + model + "\" does not support thinking", "think");
}

}  // namespace

cria_thinking read_ollama_fields(const OrderContext& context, const RequestFields& fields,
                                 const std::string& body, AnswerOrder* order,
                                 AnswerRequest* answer) {
  order->form = WireForm::kLines;
  order->model = ollama_model(context, fields);
  order->streams = fields.flag("stream", true);
  refuse_unsupported(fields);
  read_options(context, fields, answer);
  read_ollama_format(context, fields, body, answer);
  return read_think(context, fields, order->model);
}

// Times as "5m", "0s", -1: which one it is does not matter, but for none at all.
const char* ollama_done_reason(const RequestFields& fields) {
  const Json* const keep_alive = fields.find("keep_alive");
  if (keep_alive == nullptr) return "load";
  if (keep_alive->is_number()) return *keep_alive == 0 ? "unload" : "load";
  const std::string text = keep_alive->is_string() ? keep_alive->get<std::string>() : "";
  if (text.find_first_of("0123456789") == std::string::npos) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   "keep_alive must be a number of seconds, or a text such as \"5m\"",
                   "keep_alive");
  }
  return text.find_first_of("123456789") == std::string::npos ? "unload" : "load";
}

}  // namespace cria::hosted
