// Which values the bytes of a plane may hold (docs/model_format.md, part 2): what every reader
// checks of every chunk, and what the converter must never write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/model/model_layout.h"

namespace cria {

enum class PlaneValues {
  kNibbleCodes,  // of int4 and int4nl: every nibble is one
  kInt8Codes,    // of int8 and int8g32: -127..127
  kTrainedBits,  // of bit1 and bit2: all bits are codes
  kF32,          // finite; so are the next two
  kF16,
  kBf16,
  kF32Scales,  // zero (all bits) or positive and normal, finite
  kBf16Scales,
  kSignedBf16Scales,  // zero (all bits) or normal, finite
  kF16Scales,         // of bit1 and bit2: finite
  kRopeFrequencies,   // 0..format::kMaxRopeFrequency, zero with all bits
};

enum class Plane { kCodes, kScales };

// The kind of one plane of a tensor. A tensor without scales has no second plane.
[[nodiscard]] PlaneValues plane_values(const TensorSpec& spec, Plane plane);

// Whether bytes [n_bytes], whole values of a plane of this kind, aligned or not, are all allowed.
// Meant for bytes that are in a cache: reads them once, at several bytes a cycle.
[[nodiscard]] bool values_hold(PlaneValues values, const uint8_t* bytes, size_t n_bytes);

}  // namespace cria
