// The body of llama.cpp's /completion.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/prompt_fields.h"
#include "platforms/hosted/serve/sampling_fields.h"
#include "platforms/hosted/serve/styles/native/native.h"

namespace cria::hosted {
namespace {

constexpr std::string_view kSettingPrefix = "generation_settings/";

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

AnswerOrder native_order(const OrderContext& context, const Json& request,
                         const std::string& body) {
  const RequestFields fields(request);
  AnswerOrder order;
  order.make_writer = &make_native_writer;
  refuse_unsupported(fields);
  read_how_told(context, fields, &order);
  order.returns_tokens = fields.flag("return_tokens", false);
  AnswerRequest answer;
  read_sampling(context, fields, &answer);
  read_format(context, fields, body, &answer);
  order.settings = settings_of(answer, order, ignores_end(fields));
  read_response_fields(fields, &order);
  const bool tells = order.streams || tells_prompt(order);
  read_prompts(context, fields, answer, tells ? PromptTold::kDecoded : PromptTold::kNot, &order);
  check_answer_size(context, order);
  return order;
}

}  // namespace cria::hosted
