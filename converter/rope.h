// Rotary position embedding: the inverse frequencies a checkpoint's config asks for, in the
// arithmetic (f32 with the same order of operations) of the library the checkpoint was made with.
#pragma once

#include <cstdint>
#include <vector>

#include "converter/architecture_table.h"
#include "converter/json_input.h"
#include "quant/format/format.h"

namespace cria::converter {

enum class RopeType { kDefault, kLinear, kLlama3, kYarn, kLongRope, kProportional };

struct RopeSettings {
  RopeType type = RopeType::kDefault;
  double theta = 0;
  double factor = 1;                  // all but kDefault
  double part = 1;                    // kProportional: of all pairs, the first that turn
  double original_context = 0;        // kLlama3, kYarn, kLongRope
  double low_frequency_factor = 0;    // kLlama3
  double high_frequency_factor = 0;   // kLlama3
  double beta_fast = 0;               // kYarn
  double beta_slow = 0;               // kYarn
  double attention_factor = 1;        // kYarn, kLongRope
  double score_factor = 1;            // of scores of latent attention; all but kDefault
  bool truncate = true;               // kYarn
  std::vector<double> short_factors;  // kLongRope, one a frequency
  std::vector<double> long_factors;   // kLongRope
};

struct Rope {
  std::vector<float> inverse_frequencies;       // [rotary_dim / 2]
  std::vector<float> long_inverse_frequencies;  // of more positions than the original; or empty
  float attention_factor;                       // cosines and sines are multiplied by it
};

// Elements of a head of head_dim that are turned: partial_rotary_factor of them, an even number.
// Throws ProgramError for a part where the architecture has none.
[[nodiscard]] uint32_t read_rotary_dim(const JsonObject& config, const ArchitectureRow& row,
                                       uint32_t head_dim);

// Which layers' positions.
enum class RopeOf { kLayers, kWindows };

// Reads rope_theta with rope_scaling, or rope_parameters; of kWindows as WindowRope says. Throws
// ProgramError for a type that is not one of RopeType and for missing or impossible values.
[[nodiscard]] RopeSettings read_rope_settings(const JsonObject& config, const ArchitectureRow& row,
                                              RopeOf of, uint32_t max_context, uint32_t rotary_dim);

// By what queries grow with the logarithm of their position; 0: they do not.
struct QueryGrowth {
  float growth;
  uint32_t period;
};
[[nodiscard]] QueryGrowth read_query_growth(const JsonObject& config, const ArchitectureRow& row,
                                            uint32_t max_context);

// rotary_dim is even.
[[nodiscard]] Rope compute_rope(const RopeSettings& settings, uint32_t rotary_dim);

// The positions above which the second frequencies serve; 0: there is one set.
[[nodiscard]] uint32_t original_context(const RopeSettings& settings, uint32_t max_context);

}  // namespace cria::converter
