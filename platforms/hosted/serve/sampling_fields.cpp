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
constexpr size_t kMostBiases = 300;  // or the vocabulary, where it is larger

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
  for (const MemberName name : {MemberName("max_completion_tokens"), MemberName("max_tokens"),
                                MemberName("max_output_tokens"), MemberName("n_predict")}) {
    const std::optional<int64_t> found = fields.integer(name, -1, kCountBounds.high);
    if (!limit) limit = found;
  }
  return limit;
}

template <typename Name>
std::shared_ptr<const StopStrings> stops_of(const BasicFields<Name>& fields) {
  std::vector<std::string> stops;
  const auto take = [&stops](const Json& stop) {
    if (!stop.is_string()) {
      throw ApiError(ErrorKind::kInvalidRequest, "stop must be a text or a list of texts", "stop");
    }
    std::string text = stop.get<std::string>();
    if (text.size() > kMostStopBytes) {
      throw ApiError(ErrorKind::kInvalidRequest,
                     text_of("a stop string has at most %zu bytes", kMostStopBytes), "stop");
    }
    stops.push_back(std::move(text));
  };
  const Json* const found = fields.find("stop");
  if (found == nullptr) return nullptr;
  if (!found->is_array()) {
    take(*found);
  } else if (found->size() > kMostStops) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   text_of("at most %zu stop strings are taken", kMostStops), "stop");
  } else {
    for (const Json& stop : *found) take(stop);
  }
  return std::make_shared<StopStrings>(std::move(stops));
}

float bias_of(const Json& value) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<float>::infinity();
  const float bias = value.is_number() ? value.get<float>() : std::nanf("");
  if (std::isfinite(bias)) return bias;
  throw ApiError(ErrorKind::kInvalidRequest, "logit_bias: a bias is a number, or false",
                 "logit_bias");
}

// Those of a request, a token's all in one: what they take is the vocabulary's to say.
class Biases {
 public:
  explicit Biases(const OrderContext& context)
      : context_(context), sums_(context.model.info().vocab_size) {}

  void read(const RequestFields& fields);
  void forbid_end_tokens();
  // Null: none. Throws ApiError where no token is left.
  [[nodiscard]] std::shared_ptr<const std::vector<cria_logit_bias>> take() const;

 private:
  void add(uint32_t token, float bias) {
    constexpr float kMost = std::numeric_limits<float>::max();
    sums_[token] = std::min(sums_[token] + bias, kMost);
  }
  void add_row(const Json& token, const Json& value, bool reads_ids);

  const OrderContext& context_;
  std::vector<float> sums_;  // of each token
};

// "123" is a token id, as OpenAI's clients write them; other texts are the tokens of a text.
void Biases::add_row(const Json& token, const Json& value, bool reads_ids) {
  const float bias = bias_of(value);
  const uint32_t vocab_size = context_.model.info().vocab_size;
  if (!token.is_string()) return add(token_id(token, vocab_size, "logit_bias"), bias);
  const std::string text = token.get<std::string>();
  int64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, id);
  // What is out of range is an id too, and none that there is.
  if (reads_ids && parsed.ec != std::errc::invalid_argument && parsed.ptr == end) {
    const bool is_known = parsed.ec == std::errc();
    return add(token_id(is_known ? Json(id) : Json(-1), vocab_size, "logit_bias"), bias);
  }
  constexpr size_t kMostTextBytes = 1024;
  if (text.size() > kMostTextBytes) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   text_of("logit_bias: a text has at most %zu bytes", kMostTextBytes),
                   "logit_bias");
  }
  for (const uint32_t each : context_.text->encode(text, CRIA_ENCODE_PARSE).tokens) {
    add(each, bias);
  }
}

void Biases::read(const RequestFields& fields) {
  const Json* const found = fields.find("logit_bias");
  if (found == nullptr) return;
  const auto is_pair = [](const Json& row) { return row.is_array() && row.size() == 2; };
  if (!found->is_object() &&
      (!found->is_array() || !std::all_of(found->begin(), found->end(), is_pair))) {
    throw ApiError(ErrorKind::kInvalidRequest,
                   "logit_bias must be an object, or a list of [token, bias]", "logit_bias");
  }
  const size_t most = std::max(kMostBiases, sums_.size());
  if (found->size() > most) {
    throw ApiError(ErrorKind::kInvalidRequest, text_of("logit_bias has at most %zu entries", most),
                   "logit_bias");
  }
  if (found->is_object()) {
    for (const auto& [token, value] : found->items()) add_row(Json(token), value, true);
    return;
  }
  for (const Json& row : *found) add_row(row[0], row[1], false);
}

void Biases::forbid_end_tokens() {
  for (uint32_t token = 0; token < sums_.size(); ++token) {
    if (cria_is_end_token(context_.model.model(), token) != 0) {
      sums_[token] = -std::numeric_limits<float>::infinity();
    }
  }
}

// What remains when some are left is the schema's to say.
std::shared_ptr<const std::vector<cria_logit_bias>> Biases::take() const {
  const auto is_bias = [](float sum) { return sum != 0.0f; };
  const auto n_biases = std::count_if(sums_.begin(), sums_.end(), is_bias);
  if (n_biases == 0) return nullptr;
  if (std::all_of(sums_.begin(), sums_.end(), [](float sum) { return std::isinf(sum); })) {
    throw ApiError(ErrorKind::kInvalidRequest, "logit_bias forbids every token", "logit_bias");
  }
  auto biases = std::make_shared<std::vector<cria_logit_bias>>();
  biases->reserve(static_cast<size_t>(n_biases));
  for (uint32_t token = 0; token < sums_.size(); ++token) {
    if (is_bias(sums_[token])) biases->push_back({token, sums_[token]});
  }
  return biases;
}

template <typename Name>
uint64_t seed_of(const BasicFields<Name>& fields) {
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

template <typename Name>
void read_draws(const OrderContext& context, const BasicFields<Name>& fields,
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
  request->stops = stops_of(fields);
}

template void read_draws(const OrderContext&, const RequestFields&, AnswerRequest*);
template void read_draws(const OrderContext&, const Fields&, AnswerRequest*);

void read_sampling(const OrderContext& context, const RequestFields& fields,
                   AnswerRequest* request) {
  read_draws(context, fields, request);
  if (const auto limit = limit_of(fields); limit && *limit >= 0) {
    request->max_tokens = static_cast<uint32_t>(*limit);
  }
  request->n_choices = static_cast<uint32_t>(
      fields.integer("n", 1, static_cast<int64_t>(context.n_sessions)).value_or(1));
  Biases biases(context);
  biases.read(fields);
  if (ignores_end(fields)) biases.forbid_end_tokens();
  request->biases = biases.take();
  read_probabilities(fields, request);
}

bool ignores_end(const RequestFields& fields) { return fields.flag("ignore_eos", false); }

void check_prompt(const OrderContext& context, const Encoded& prompt) {
  const uint32_t n_context = cria_context(context.model.session());
  if (prompt.is_counted || prompt.n_tokens >= n_context) {
    context.text->refuse_length(prompt.n_tokens);
  }
  if (prompt.tokens.empty()) {
    throw ApiError(ErrorKind::kInvalidRequest, "the prompt is empty", "prompt");
  }
}

void set_schema(const OrderContext& context, const RequestFields& fields, std::string_view schema,
                const char* param, AnswerRequest* request) {
  std::string problem;
  request->guide = context.engine->schemas().compile(std::string(schema), &problem);
  if (request->guide == nullptr) {
    throw ApiError(ErrorKind::kInvalidRequest, std::string(param) + ": " + problem, param);
  }
  if (ignores_end(fields)) {
    throw ApiError(ErrorKind::kInvalidRequest, "a JSON document ends: leave out ignore_eos",
                   "ignore_eos");
  }
}

void refuse_present(const RequestFields& fields, std::initializer_list<MemberName> names) {
  for (const MemberName name : names) {
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

void refuse_unsupported(const RequestFields& fields) {
  refuse_present(fields, {"grammar", "suffix", "image_data", "audio", "lora"});
}

void refuse_tools(const RequestFields& fields) { refuse_present(fields, {"tools", "functions"}); }

}  // namespace cria::hosted
