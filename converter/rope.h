// Rotary position embedding: the inverse frequencies a checkpoint's config asks for, in the
// arithmetic (f32 with the same order of operations) of the library the checkpoint was made with.
#pragma once

#include <cstdint>
#include <vector>

#include "converter/json_input.h"

namespace cria::converter {

enum class RopeType { kDefault, kLinear, kLlama3, kYarn };

struct RopeSettings {
  RopeType type = RopeType::kDefault;
  double theta = 0;
  double factor = 1;                 // all but kDefault
  double original_context = 0;       // kLlama3, kYarn
  double low_frequency_factor = 0;   // kLlama3
  double high_frequency_factor = 0;  // kLlama3
  double beta_fast = 0;              // kYarn
  double beta_slow = 0;              // kYarn
  double attention_factor = 1;       // kYarn
  bool truncate = true;              // kYarn
};

struct Rope {
  std::vector<float> inverse_frequencies;  // [head_dim / 2]
  float attention_factor;                  // cosines and sines are multiplied by it
};

// Reads rope_theta with rope_scaling, or rope_parameters. Throws ProgramError for a type that is
// not one of RopeType and for missing or impossible values.
[[nodiscard]] RopeSettings read_rope_settings(const JsonObject& config, uint32_t max_context);

// head_dim is even.
[[nodiscard]] Rope compute_rope(const RopeSettings& settings, uint32_t head_dim);

}  // namespace cria::converter
