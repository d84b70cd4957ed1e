#include "platforms/hosted/serve/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/random_bits.h"
#include "platforms/hosted/session/sampling_bounds.h"

namespace cria::hosted {
namespace {

constexpr int64_t kMostTop = 20;  // as OpenAI has it
constexpr size_t kMostStops = 64;
constexpr size_t kMostStopBytes = 1024;

struct NumberRow {
  MemberName name;
  float cria_sampling::*place;
  Bounds<float> bounds;
};
constexpr NumberRow kNumbers[] = {
    {"temperature", &cria_sampling::temperature, kTemperatureBounds},
    {"top_p", &cria_sampling::top_p, kShareBounds},
    {"min_p", &cria_sampling::min_p, kShareBounds},
    {"repeat_penalty", &cria_sampling::repeat_penalty, kRepeatPenaltyBounds},
    {"frequency_penalty", &cria_sampling::frequency_penalty, kPenaltyBounds},
    {"presence_penalty", &cria_sampling::presence_penalty, kPenaltyBounds},
};

// The first that is there; of a limit that is none, -1.
std::optional<int64_t> limit_of(const RequestFields& fields) {
  std::optional<int64_t> limit;
  for (const MemberName name :
       {MemberName("max_completion_tokens"), MemberName("max_tokens"), MemberName("n_predict")}) {
    const std::optional<int64_t> found = fields.integer(name, -1, kCountBounds.high);
    if (!limit) limit = found;
  }
  return limit;
}

void read_stops(const RequestFields& fields, std::vector<std::string>* stops) {
  const auto take = [stops](const Json& stop) {
    if (!stop.is_string()) {
      throw ApiError(ErrorKind::kInvalidRequest, "stop must be a text or a list of texts", "stop");
    }
    std::string text = stop.get<std::string>();
    if (text.size() > kMostStopBytes) {
      throw ApiError(ErrorKind::kInvalidRequest,
                     text_of("a stop string has at most %zu bytes", kMostStopBytes), "stop");
    }
    if (!text.empty()) stops->push_back(std::move(text));
  };
  const Json* const found = fields.find("stop");
  if (found == nullptr) return;
  if (!found->is_array()) return take(*found);
  if (found->size() > kMostStops) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   text_of("at most %zu stop strings are taken", kMostStops), "stop");
  }
  for (const Json& stop : *found) take(stop);
}

float bias_of(const Json& value) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<float>::infinity();
  const float bias = value.is_number() ? value.get<float>() : std::nanf("");
  if (std::isfinite(bias)) return bias;
  throw ApiError(ErrorKind::kInvalidRequest, "logit_bias: a bias is a number, or false",
                 "logit_bias");
}

// "123" is a token id, as OpenAI's clients write them; other texts are the tokens of a text.
void add_bias(const OrderContext& context, const Json& token, const Json& value, bool reads_ids,
              std::vector<cria_logit_bias>* biases) {
  const float bias = bias_of(value);
  const uint32_t vocab_size = context.model.info().vocab_size;
  if (!token.is_string()) {
    biases->push_back({token_id(token, vocab_size, "logit_bias"), bias});
    return;
  }
  const std::string text = token.get<std::string>();
  int64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, id);
  if (reads_ids && !text.empty() && parsed.ec == std::errc() && parsed.ptr == end) {
    biases->push_back({token_id(Json(id), vocab_size, "logit_bias"), bias});
    return;
  }
  const Encoded encoded = context.text->encode(text, CRIA_ENCODE_PARSE);
  if (encoded.is_counted) {
    throw ApiError(
        ErrorKind::kInvalidRequest,
        text_of("logit_bias: a text has at most %zu bytes", context.text->max_text_bytes()),
        "logit_bias");
  }
  for (const uint32_t each : encoded.tokens) biases->push_back({each, bias});
}

void read_biases(const OrderContext& context, const RequestFields& fields,
                 std::vector<cria_logit_bias>* biases) {
  const Json* const found = fields.find("logit_bias");
  if (found == nullptr) return;
  if (found->is_object()) {
    for (const auto& [token, value] : found->items()) {
      add_bias(context, Json(token), value, true, biases);
    }
    return;
  }
  const auto is_pair = [](const Json& row) { return row.is_array() && row.size() == 2; };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_pair)) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   "logit_bias must be an object, or a list of [token, bias]", "logit_bias");
  }
  for (const Json& row : *found) add_bias(context, row[0], row[1], false, biases);
}

// What remains when some are left is the schema's to say.
void check_some_token_is_left(const OrderContext& context, const AnswerRequest& request) {
  const uint32_t vocab_size = context.model.info().vocab_size;
  std::vector<bool> is_forbidden(vocab_size);
  for (uint32_t token = 0; request.ignore_end && token < vocab_size; ++token) {
    is_forbidden[token] = cria_is_end_token(context.model.model(), token) != 0;
  }
  for (const cria_logit_bias& each : request.biases) {
    if (std::isinf(each.bias)) is_forbidden[each.token] = true;
  }
  if (std::find(is_forbidden.begin(), is_forbidden.end(), false) != is_forbidden.end()) return;
  throw ApiError(ErrorKind::kInvalidRequest, "logit_bias forbids every token", "logit_bias");
}

uint64_t seed_of(const RequestFields& fields) {
  const Json* const found = fields.find("seed");
  // 32 bits: any program can say it again.
  constexpr uint64_t kMask = 0xffffffff;
  if (found == nullptr) return random_bits() & kMask;
  if (found->is_number_unsigned()) return found->get<uint64_t>();
  const std::optional<int64_t> seed = whole_number(*found);
  if (!seed) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   text_of("seed must be a whole number from %lld to %llu",
                           std::numeric_limits<long long>::min(),
                           std::numeric_limits<unsigned long long>::max()),
                   "seed");
  }
  return *seed == -1 ? random_bits() & kMask : static_cast<uint64_t>(*seed);
}

void read_probabilities(const RequestFields& fields, AnswerRequest* request) {
  const std::optional<int64_t> top = fields.integer("top_logprobs", 0, kMostTop);
  const std::optional<int64_t> n_probs = fields.integer("n_probs", 0, kMostTop);
  const Json* const logprobs = fields.find("logprobs");
  if (n_probs && *n_probs > 0) request->n_top = static_cast<uint32_t>(*n_probs);
  if (logprobs != nullptr && logprobs->is_number()) {  // /v1/completions has a count
    const int64_t n = *fields.integer("logprobs", 0, kMostTop);
    request->n_top = static_cast<uint32_t>(n);
    return;
  }
  const bool wanted = fields.flag("logprobs", false);
  if (top && *top > 0 && !wanted) {
    throw ApiError(ErrorKind::kInvalidRequest, "top_logprobs needs logprobs to be true",
                   "top_logprobs");
  }
  if (wanted) request->n_top = static_cast<uint32_t>(top.value_or(0));
}

}  // namespace

void read_sampling(const OrderContext& context, const RequestFields& fields,
                   AnswerRequest* request) {
  request->sampling = context.usual;
  for (const NumberRow& row : kNumbers) {
    const std::optional<double> value = fields.number(row.name, static_cast<double>(row.bounds.low),
                                                      static_cast<double>(row.bounds.high));
    if (value) request->sampling.*row.place = static_cast<float>(*value);
  }
  if (const auto top_k = fields.integer("top_k", -1, kCountBounds.high)) {
    request->sampling.top_k = static_cast<uint32_t>(std::max<int64_t>(*top_k, 0));
  }
  // In a struct zero is "off"; in a request it is a sum that the likeliest token alone reaches.
  if (const auto top_p = fields.find("top_p"); top_p != nullptr && *top_p == 0.0) {
    request->sampling.top_k = 1;
  }
  request->seed = seed_of(fields);
  if (const auto limit = limit_of(fields); limit && *limit >= 0) {
    request->max_tokens = static_cast<uint32_t>(*limit);
  }
  request->n_choices = static_cast<uint32_t>(
      fields.integer("n", 1, static_cast<int64_t>(context.n_sessions)).value_or(1));
  request->ignore_end = fields.flag("ignore_eos", false);
  read_stops(fields, &request->stops);
  read_biases(context, fields, &request->biases);
  if (!request->biases.empty()) check_some_token_is_left(context, *request);
  read_probabilities(fields, request);
}

void check_prompt(const OrderContext& context, const Encoded& prompt) {
  const uint32_t n_context = cria_context(context.model.session());
  if (prompt.is_counted || prompt.n_tokens >= n_context) {
    throw ApiError(ContextSizes{prompt.n_tokens, n_context, context.model.advice_on_length()});
  }
  if (prompt.tokens.empty()) {
    throw ApiError(ErrorKind::kInvalidRequest, "the prompt is empty", "prompt");
  }
}

void set_schema(const OrderContext& context, std::string_view schema, const char* param,
                AnswerRequest* request) {
  request->is_json = true;
  request->schema = schema;
  const std::string problem = context.engine->problem_with_schema(request->schema);
  if (!problem.empty()) {
    throw ApiError(ErrorKind::kInvalidRequest, std::string(param) + ": " + problem, param);
  }
  if (request->ignore_end) {
    throw ApiError(ErrorKind::kInvalidRequest, "a JSON document ends: leave out ignore_eos",
                   "ignore_eos");
  }
}

void refuse_unsupported(const RequestFields& fields) {
  for (const MemberName name : {MemberName("tools"), MemberName("functions"), MemberName("grammar"),
                                MemberName("suffix")}) {
    const Json* const found = fields.find(name);
    const bool is_there =
        found != nullptr &&
        !(found->is_string() ? found->get<std::string>().empty() : found->empty());
    if (is_there) {
      throw ApiError(ErrorKind::kInvalidRequest,
                     text_of("%s is not supported", static_cast<const char*>(name)),
                     static_cast<const char*>(name));
    }
  }
}

}  // namespace cria::hosted
