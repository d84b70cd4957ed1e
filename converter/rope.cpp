#include "converter/rope.h"

#include "converter/config_numbers.h"
#include "converter/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cria::converter {
namespace {

constexpr double kDefaultBetaFast = 32;
constexpr double kDefaultBetaSlow = 1;
constexpr double kYarnLogWeight = 0.1;
constexpr double kRampSingularity = 0.001;

constexpr const char* kOfLayers = "full_attention";
constexpr const char* kOfWindows = "sliding_attention";
constexpr const char* kGrowth = "llama_4_scaling_beta";
constexpr const char* kOriginalContext = "original_max_position_embeddings";

// What scales positions of all layers, or of those with a window and others apart: the old spelling
// wins where a config has both.
struct Scaling {
  std::optional<JsonObject> object;
  bool is_apart = false;
};
Scaling scaling_of(const JsonObject& config, const ArchitectureRow& row, RopeOf of) {
  const std::optional<JsonObject> old_spelling = config.object("rope_scaling");
  const bool says_something = old_spelling && !old_spelling->keys().empty();
  const std::optional<JsonObject> found =
      says_something ? old_spelling : config.object("rope_parameters");
  const bool is_apart = found && row.window_rope != WindowRope::kSame &&
                        (found->has(kOfLayers) || found->has(kOfWindows));
  if (!is_apart) return {found};
  const char* const key = of == RopeOf::kWindows ? kOfWindows : kOfLayers;
  if (!found->has(key)) found->refuse(key, "is missing");
  return {found->object(key), true};
}

// Keys of any type of scaling; another that is set may change what is computed: positions of
// pictures, settings of single kinds of layers, or what newer models have.
constexpr std::string_view kScalingKeys[] = {
    "rope_type",       "type",          "rope_theta",
    "factor",          "finetuned",     "original_max_position_embeddings",
    "low_freq_factor", "short_factor",  "partial_rotary_factor",
    "beta_fast",       "beta_slow",     "high_freq_factor",
    "mscale",          "long_factor",   "attention_factor",
    "truncate",        "mscale_all_dim"};
// Those that mean something without a type.
constexpr std::string_view kKeysOfNoScaling[] = {"rope_theta", "partial_rotary_factor",
                                                 "original_max_position_embeddings"};

// Which pairs turn by which coordinate of a picture: of text all are the position.
constexpr std::string_view kPicturePlaces[] = {"mrope_section", "mrope_interleaved"};

bool is_one_of(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void check_keys(const JsonObject& scaling, const ArchitectureRow& row) {
  const bool has_type = scaling.has("rope_type") || scaling.has("type");
  for (const std::string& key : scaling.keys()) {
    if (!scaling.is_on(key)) continue;
    if (key == kGrowth && row.has_key(kGrowth)) continue;
    if (is_one_of(kPicturePlaces, key) && row.rotary_part != 1) continue;
    if (!is_one_of(kScalingKeys, key)) {
      scaling.refuse(key, "is set, which is not read: it may change the positions");
    }
    if (!has_type && !is_one_of(kKeysOfNoScaling, key)) {
      scaling.refuse("rope_type", "is missing, and " + scaling.name_of(key) + " is set");
    }
  }
}

RopeType read_type(const JsonObject& scaling, const ArchitectureRow& row) {
  const std::string name =
      scaling.text("rope_type").value_or(scaling.text("type").value_or("default"));
  const bool is_old_name = row.yarn_means_longrope && (name == "su" || name == "yarn");
  if (name == "longrope" || is_old_name) return RopeType::kLongRope;
  if (name == "default") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "llama3") return RopeType::kLlama3;
  if (name == "yarn") return RopeType::kYarn;
  if (name == "proportional" && row.is_proportional) return RopeType::kProportional;
  scaling.refuse("rope_type", "'" + shown(name) +
                                  "' is not supported, only default, linear, llama3, yarn, "
                                  "longrope" +
                                  (row.is_proportional ? ", proportional" : ""));
}

// A config may give a value of zero where it means none.
double number_or(const JsonObject& object, const char* key, double otherwise) {
  const double value = object.number(key).value_or(0);
  return value == 0 ? otherwise : value;
}

constexpr const char* kPart = "partial_rotary_factor";

void read_proportional(const JsonObject& scaling, RopeSettings* rope) {
  rope->factor = positive(scaling, "factor", scaling.number("factor").value_or(1));
  rope->part = scaling.number(kPart).value_or(1);
  if (!(rope->part > 0 && rope->part <= 1)) {
    scaling.refuse(kPart, "must be above 0 and at most 1");
  }
}

// How much YaRN lengthens queries and keys when positions are stretched by factor.
double yarn_magnitude(double factor, double weight) {
  return factor <= 1 ? 1 : kYarnLogWeight * weight * std::log(factor) + 1;
}

void read_yarn(const JsonObject& scaling, RopeSettings* rope) {
  rope->beta_fast = number_or(scaling, "beta_fast", kDefaultBetaFast);
  rope->beta_slow = number_or(scaling, "beta_slow", kDefaultBetaSlow);
  positive(scaling, "beta_fast", rope->beta_fast);
  positive(scaling, "beta_slow", rope->beta_slow);
  rope->truncate = scaling.boolean("truncate").value_or(true);
  const double mscale = scaling.number("mscale").value_or(0);
  const double mscale_all_dim = scaling.number("mscale_all_dim").value_or(0);
  double magnitude = yarn_magnitude(rope->factor, 1);
  if (mscale != 0 && mscale_all_dim != 0) {
    magnitude = yarn_magnitude(rope->factor, mscale) / yarn_magnitude(rope->factor, mscale_all_dim);
  }
  rope->attention_factor =
      positive(scaling, "attention_factor", scaling.number("attention_factor").value_or(magnitude));
}

void read_llama3(const JsonObject& scaling, RopeSettings* rope) {
  rope->low_frequency_factor =
      positive(scaling, "low_freq_factor", scaling.required_number("low_freq_factor"));
  rope->high_frequency_factor =
      positive(scaling, "high_freq_factor", scaling.required_number("high_freq_factor"));
  if (rope->high_frequency_factor <= rope->low_frequency_factor) {
    scaling.refuse("high_freq_factor", "must be above low_freq_factor");
  }
}

std::vector<double> read_factors(const JsonObject& scaling, const char* key, uint32_t rotary_dim) {
  const std::optional<std::vector<double>> factors = scaling.numbers(key);
  if (!factors) scaling.refuse(key, "is missing");
  if (factors->size() != rotary_dim / 2) {
    scaling.refuse(key, "has " + std::to_string(factors->size()) + " numbers where " +
                            std::to_string(rotary_dim / 2) + " frequencies want one each");
  }
  for (const double factor : *factors) positive(scaling, key, factor);
  return *factors;
}

void read_longrope(const JsonObject& scaling, double context, uint32_t rotary_dim,
                   RopeSettings* rope) {
  rope->short_factors = read_factors(scaling, "short_factor", rotary_dim);
  rope->long_factors = read_factors(scaling, "long_factor", rotary_dim);
  rope->factor = positive(scaling, "factor",
                          scaling.number("factor").value_or(context / rope->original_context));
  const double magnitude =
      rope->factor <= 1 ? 1
                        : std::sqrt(1 + std::log(rope->factor) / std::log(rope->original_context));
  rope->attention_factor =
      positive(scaling, "attention_factor", scaling.number("attention_factor").value_or(magnitude));
}

// [rotary_dim / 2] powers of theta: theta^(2i / rotary_dim).
std::vector<float> wavelength_powers(double theta, uint32_t rotary_dim) {
  std::vector<float> powers(rotary_dim / 2);
  for (uint32_t i = 0; i < rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
    // Through double, so that the power is rounded once.
    powers[i] = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(exponent)));
  }
  return powers;
}

// Each wavelength stretched by a factor of its own.
std::vector<float> stretched_frequencies(double theta, const std::vector<double>& factors) {
  std::vector<float> frequencies =
      wavelength_powers(theta, static_cast<uint32_t>(2 * factors.size()));
  for (size_t i = 0; i < factors.size(); ++i) {
    frequencies[i] = 1.0f / (static_cast<float>(factors[i]) * frequencies[i]);
  }
  return frequencies;
}

// Long wavelengths are stretched by factor, short ones kept, those between blended.
void scale_llama3(const RopeSettings& rope, std::vector<float>* frequencies) {
  const float context = static_cast<float>(rope.original_context);
  const float factor = static_cast<float>(rope.factor);
  const float low = static_cast<float>(rope.low_frequency_factor);
  const float width = static_cast<float>(rope.high_frequency_factor - rope.low_frequency_factor);
  const float longest_kept = static_cast<float>(rope.original_context / rope.high_frequency_factor);
  const float shortest_stretched =
      static_cast<float>(rope.original_context / rope.low_frequency_factor);
  for (float& frequency : *frequencies) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wavelength > shortest_stretched) {
      frequency /= factor;
    } else if (!(wavelength < longest_kept)) {
      const float kept = (context / wavelength - low) / width;
      frequency = (1 - kept) * frequency / factor + kept * frequency;
    }
  }
}

// The dimension whose wavelength makes this many turns within the original context.
double yarn_dimension(const RopeSettings& rope, double turns, uint32_t rotary_dim) {
  return rotary_dim * std::log(rope.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

std::vector<float> yarn_frequencies(const RopeSettings& rope, uint32_t rotary_dim) {
  double low = yarn_dimension(rope, rope.beta_fast, rotary_dim);
  double high = yarn_dimension(rope, rope.beta_slow, rotary_dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rotary_dim - 1.0);
  if (low == high) high += kRampSingularity;
  const std::vector<float> powers = wavelength_powers(rope.theta, rotary_dim);
  std::vector<float> frequencies(powers.size());
  for (size_t i = 0; i < powers.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float kept = 1 - ramp;
    const float stretched = 1.0f / (static_cast<float>(rope.factor) * powers[i]);
    frequencies[i] = stretched * (1 - kept) + 1.0f / powers[i] * kept;
  }
  return frequencies;
}

}  // namespace

uint32_t read_rotary_dim(const JsonObject& config, const ArchitectureRow& row, uint32_t head_dim) {
  if (row.is_proportional) return head_dim;
  const std::optional<JsonObject> scaling = scaling_of(config, row, RopeOf::kLayers).object;
  const JsonObject& with_key = scaling && scaling->has(kPart) ? *scaling : config;
  const double part = with_key.number(kPart).value_or(row.rotary_part);
  if (part == 1) return head_dim;
  if (!row.has_partial_rotary)
    with_key.refuse(kPart, "turns a part of each head, where this architecture turns all of it");
  if (!(part > 0 && part < 1)) with_key.refuse(kPart, "must be above 0 and at most 1");
  const auto turned = static_cast<uint32_t>(head_dim * part);
  if (turned < 2 || turned % 2 != 0) {
    with_key.refuse(kPart, "gives " + std::to_string(turned) + " of a head's " +
                               std::to_string(head_dim) + " elements, which must be even");
  }
  return turned;
}

QueryGrowth read_query_growth(const JsonObject& config, const ArchitectureRow& row,
                              uint32_t max_context) {
  const std::optional<JsonObject> scaling = scaling_of(config, row, RopeOf::kLayers).object;
  if (!row.has_key(kGrowth) || !scaling || !scaling->is_on(kGrowth)) return {};
  const auto growth = static_cast<float>(positive(*scaling, kGrowth, *scaling->number(kGrowth)));
  const JsonObject& with_context = config.has(kOriginalContext) ? config : *scaling;
  const double period = with_context.number(kOriginalContext).value_or(max_context);
  if (!(period >= 1 && period <= format::kMaxContext)) {
    with_context.refuse(kOriginalContext,
                        "must be from 1 to " + std::to_string(format::kMaxContext));
  }
  return {growth, static_cast<uint32_t>(period)};
}

RopeSettings read_rope_settings(const JsonObject& config, const ArchitectureRow& row, RopeOf of,
                                uint32_t max_context, uint32_t rotary_dim) {
  constexpr const char* kTheta = "rope_theta";
  constexpr const char* kWindowTheta = "rope_local_base_freq";
  constexpr double kUsualWindowTheta = 10000;
  const auto [scaling, is_apart] = scaling_of(config, row, of);
  RopeSettings rope;
  if (of == RopeOf::kWindows && row.window_rope == WindowRope::kOwn && !is_apart) {
    rope.theta =
        positive(config, kWindowTheta, config.number(kWindowTheta).value_or(kUsualWindowTheta));
    return rope;
  }
  const JsonObject& with_theta = scaling && scaling->has(kTheta) ? *scaling : config;
  rope.theta = positive(with_theta, kTheta, with_theta.number(kTheta).value_or(row.rope_theta));
  const bool is_proportional = row.is_proportional && of == RopeOf::kLayers;
  if (!scaling && is_proportional) {
    rope.type = RopeType::kProportional;
    rope.part = row.rotary_part;
  }
  if (!scaling) {
    if (!row.must_scale) return rope;
    config.refuse("rope_parameters",
                  "is missing: how positions are scaled. Without it, transformers takes numbers "
                  "that may not be this model's");
  }
  check_keys(*scaling, row);
  if (of == RopeOf::kWindows && !is_apart) return rope;
  rope.type = read_type(*scaling, row);
  if (is_proportional && rope.type != RopeType::kProportional) {
    scaling->refuse("rope_type", "must be proportional for layers without a window");
  }
  if (rope.type == RopeType::kProportional) {
    read_proportional(*scaling, &rope);
    return rope;
  }
  if (row.is_proportional && scaling->number(kPart).value_or(1) != 1) {
    scaling->refuse(kPart, "goes only with rope_type proportional; set it to 1");
  }
  if (rope.type == RopeType::kDefault) return rope;
  const double context = max_context;
  if (rope.type != RopeType::kLinear) {
    const double otherwise = row.original_context != 0 ? row.original_context : context;
    const JsonObject& with_context = config.has(kOriginalContext) ? config : *scaling;
    rope.original_context = positive(with_context, kOriginalContext,
                                     with_context.number(kOriginalContext).value_or(otherwise));
  }
  if (rope.type == RopeType::kLongRope) {
    read_longrope(*scaling, context, rotary_dim, &rope);
    return rope;
  }
  const bool factor_may_follow = rope.type == RopeType::kYarn && !scaling->has("factor");
  rope.factor =
      factor_may_follow ? context / rope.original_context : scaling->required_number("factor");
  positive(*scaling, "factor", rope.factor);
  const double magnitude =
      yarn_magnitude(rope.factor, scaling->number("mscale_all_dim").value_or(0));
  rope.score_factor = positive(*scaling, "mscale_all_dim", magnitude * magnitude);
  if (rope.type == RopeType::kLlama3) read_llama3(*scaling, &rope);
  if (rope.type == RopeType::kYarn) read_yarn(*scaling, &rope);
  return rope;
}

Rope compute_rope(const RopeSettings& settings, uint32_t rotary_dim) {
  Rope rope;
  rope.attention_factor = static_cast<float>(settings.attention_factor);
  if (settings.type == RopeType::kYarn) {
    rope.inverse_frequencies = yarn_frequencies(settings, rotary_dim);
    return rope;
  }
  if (settings.type == RopeType::kLongRope) {
    rope.inverse_frequencies = stretched_frequencies(settings.theta, settings.short_factors);
    rope.long_inverse_frequencies = stretched_frequencies(settings.theta, settings.long_factors);
    return rope;
  }
  rope.inverse_frequencies = wavelength_powers(settings.theta, rotary_dim);
  for (float& value : rope.inverse_frequencies) value = 1.0f / value;
  if (settings.type == RopeType::kProportional) {
    const auto n = static_cast<size_t>(std::floor(settings.part * rotary_dim / 2));
    std::fill(rope.inverse_frequencies.begin() + static_cast<std::ptrdiff_t>(n),
              rope.inverse_frequencies.end(), 0.0F);
  }
  if (settings.type == RopeType::kLinear || settings.type == RopeType::kProportional) {
    for (float& value : rope.inverse_frequencies) value /= static_cast<float>(settings.factor);
  }
  if (settings.type == RopeType::kLlama3) scale_llama3(settings, &rope.inverse_frequencies);
  return rope;
}

uint32_t original_context(const RopeSettings& settings, uint32_t max_context) {
  const bool has_two =
      settings.type == RopeType::kLongRope && settings.original_context < max_context;
  return has_two ? static_cast<uint32_t>(settings.original_context) : 0;
}

}  // namespace cria::converter
