// Checkpoint values as f32, and the checks that decide whether they may be stored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "converter/safetensors.h"

namespace cria::converter {

// values  [n], overwritten; bytes holds n values of the type and must not overlap it. Exact.
void widen(SourceType type, const uint8_t* bytes, size_t n, float* values);

// False when any value is infinite or no number.
[[nodiscard]] bool all_finite(const float* values, size_t n);

// Largest magnitude; 0 when n is 0. The values are finite.
[[nodiscard]] float largest_magnitude(const float* values, size_t n);

}  // namespace cria::converter
