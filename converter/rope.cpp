#include "converter/rope.h"
#include "converter/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>

namespace cria::converter {
namespace {

constexpr double kDefaultTheta = 10000;
constexpr double kDefaultBetaFast = 32;
constexpr double kDefaultBetaSlow = 1;
constexpr double kYarnLogWeight = 0.1;
constexpr double kRampSingularity = 0.001;

// The object that says how positions are scaled: the old spelling wins where a config has both.
std::optional<JsonObject> scaling_object(const JsonObject& config) {
  const std::optional<JsonObject> old_spelling = config.object("rope_scaling");
  return old_spelling ? old_spelling : config.object("rope_parameters");
}

RopeType read_type(const JsonObject& scaling) {
  const std::string name =
      scaling.text("rope_type").value_or(scaling.text("type").value_or("default"));
  if (name == "default") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "llama3") return RopeType::kLlama3;
  if (name == "yarn") return RopeType::kYarn;
  scaling.refuse("rope_type",
                 "'" + shown(name) + "' is not supported, only default, linear, llama3, yarn");
}

// Far beyond every use of these numbers, and products and quotients of them are still floats.
constexpr double kLeastNumber = 1e-9;
constexpr double kLargestNumber = 1e15;

double positive(const JsonObject& object, const char* key, double value) {
  if (!(value > 0)) object.refuse(key, "must be above zero");
  if (!(value >= kLeastNumber && value <= kLargestNumber)) {
    object.refuse(key, "must be from 1e-9 to 1e15");
  }
  return value;
}

// A config may give a value of zero where it means none.
double number_or(const JsonObject& object, const char* key, double otherwise) {
  const double value = object.number(key).value_or(0);
  return value == 0 ? otherwise : value;
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

// [head_dim / 2] powers of theta: theta^(2i / head_dim).
std::vector<float> wavelength_powers(double theta, uint32_t head_dim) {
  std::vector<float> powers(head_dim / 2);
  for (uint32_t i = 0; i < head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    // Through double, so that the power is rounded once.
    powers[i] = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(exponent)));
  }
  return powers;
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
double yarn_dimension(const RopeSettings& rope, double turns, uint32_t head_dim) {
  return head_dim * std::log(rope.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

std::vector<float> yarn_frequencies(const RopeSettings& rope, uint32_t head_dim) {
  double low = yarn_dimension(rope, rope.beta_fast, head_dim);
  double high = yarn_dimension(rope, rope.beta_slow, head_dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  if (low == high) high += kRampSingularity;
  const std::vector<float> powers = wavelength_powers(rope.theta, head_dim);
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

RopeSettings read_rope_settings(const JsonObject& config, uint32_t max_context) {
  RopeSettings rope;
  rope.theta = config.number("rope_theta").value_or(kDefaultTheta);
  const std::optional<JsonObject> scaling = scaling_object(config);
  for (const JsonObject* object : {&config, scaling ? &*scaling : nullptr}) {
    if (object != nullptr && object->number("partial_rotary_factor").value_or(1) != 1) {
      object->refuse("partial_rotary_factor", "below 1 is not supported");
    }
  }
  if (!scaling) {
    positive(config, "rope_theta", rope.theta);
    return rope;
  }
  const JsonObject& with_theta = scaling->has("rope_theta") ? *scaling : config;
  rope.theta =
      positive(with_theta, "rope_theta", with_theta.number("rope_theta").value_or(rope.theta));
  rope.type = read_type(*scaling);
  if (rope.type == RopeType::kDefault) return rope;
  const double context = max_context;
  if (rope.type != RopeType::kLinear) {
    const char* key = "original_max_position_embeddings";
    const JsonObject& with_context = config.has(key) ? config : *scaling;
    rope.original_context = positive(with_context, key, with_context.number(key).value_or(context));
  }
  const bool factor_may_follow = rope.type == RopeType::kYarn && !scaling->has("factor");
  rope.factor =
      factor_may_follow ? context / rope.original_context : scaling->required_number("factor");
  positive(*scaling, "factor", rope.factor);
  if (rope.type == RopeType::kLlama3) read_llama3(*scaling, &rope);
  if (rope.type == RopeType::kYarn) read_yarn(*scaling, &rope);
  return rope;
}

Rope compute_rope(const RopeSettings& settings, uint32_t head_dim) {
  Rope rope;
  rope.attention_factor = static_cast<float>(settings.attention_factor);
  if (settings.type == RopeType::kYarn) {
    rope.inverse_frequencies = yarn_frequencies(settings, head_dim);
    return rope;
  }
  rope.inverse_frequencies = wavelength_powers(settings.theta, head_dim);
  for (float& value : rope.inverse_frequencies) value = 1.0f / value;
  if (settings.type == RopeType::kLinear) {
    for (float& value : rope.inverse_frequencies) value /= static_cast<float>(settings.factor);
  }
  if (settings.type == RopeType::kLlama3) scale_llama3(settings, &rope.inverse_frequencies);
  return rope;
}

}  // namespace cria::converter
