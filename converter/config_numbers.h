// Numbers of a config.json within the limits of a model file; errors name the key.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "converter/json_input.h"

namespace cria::converter {

inline void check_within(const JsonObject& config, const char* key, uint32_t value, uint32_t least,
                         uint32_t most) {
  if (value >= least && value <= most) return;
  config.refuse(key, "must be from " + std::to_string(least) + " to " + std::to_string(most));
}

// From 1 to most.
[[nodiscard]] inline uint32_t required_within(const JsonObject& config, const char* key,
                                              uint32_t most) {
  const uint32_t value = config.required_count(key);
  check_within(config, key, value, 1, most);
  return value;
}

// The same; otherwise: where the config is silent, 0 where it must not be.
[[nodiscard]] inline uint32_t count_or(const JsonObject& config, const char* key,
                                       uint32_t otherwise, uint32_t most) {
  const std::optional<uint32_t> value = config.count(key);
  if (!value && otherwise == 0) return required_within(config, key, most);
  check_within(config, key, value.value_or(otherwise), 1, most);
  return value.value_or(otherwise);
}

[[nodiscard]] inline float read_number(const JsonObject& config, const char* key,
                                       double otherwise) {
  const double said = config.number(key).value_or(otherwise);
  const auto value = static_cast<float>(said);
  const bool is_lost = value == 0 && said != 0;
  if (is_lost || !std::isfinite(value)) {
    config.refuse(key, "is out of the range a model file can hold");
  }
  return value;
}

// Far beyond every use of numbers that others are multiplied or divided by. Their squares, products
// and quotients are still floats, and no row that a norm divides by becomes infinite or zero.
inline constexpr double kLeastFactor = 1e-9;
inline constexpr double kLargestFactor = 1e15;

inline double positive(const JsonObject& config, const char* key, double value) {
  if (!(value > 0)) config.refuse(key, "must be above zero");
  if (!(value >= kLeastFactor && value <= kLargestFactor)) {
    config.refuse(key, "must be from 1e-9 to 1e15");
  }
  return value;
}

// Of either sign.
[[nodiscard]] inline float read_multiplier(const JsonObject& config, const char* key,
                                           double otherwise) {
  const double value = config.number(key).value_or(otherwise);
  if (!(std::fabs(value) >= kLeastFactor && std::fabs(value) <= kLargestFactor)) {
    config.refuse(key, "must be from 1e-9 to 1e15, or so below zero");
  }
  return static_cast<float>(value);
}

}  // namespace cria::converter
