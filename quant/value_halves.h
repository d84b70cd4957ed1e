// Values with the lower halves of their bits apart from the upper ones, as chunks are compressed
// (docs/model_format.md, part 4). The upper half of a bf16 scale, its sign and most of its
// exponent, is one of few, that of a code one of the likely sizes; lower halves are nearly random.
// So zstd, which counts bytes, finds what there is to win in the upper half alone, and leaves the
// other as it is: to unpack it is to copy it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/tensor_check.h"

namespace cria {

// Whether values of a plane have halves: those of two bytes, and codes.
[[nodiscard]] constexpr bool has_halves(PlaneValues values) {
  switch (values) {
    case PlaneValues::kAny:
    case PlaneValues::kInt8Codes:
    case PlaneValues::kF16:
    case PlaneValues::kBf16:
    case PlaneValues::kBf16Scales:
    case PlaneValues::kSignedBf16Scales:
      return true;
    case PlaneValues::kF32:
    case PlaneValues::kF32Scales:
    case PlaneValues::kRopeFrequencies:
      break;
  }
  return false;
}

// raw [n_bytes], values that have halves -> apart [n_bytes], n_bytes / 2 of lower halves, then as
// many of upper ones; and back. n_bytes is even, as it is for every such plane; the last byte of an
// odd number stays as it is. The arrays do not overlap.
void take_halves_apart(PlaneValues values, const uint8_t* raw, size_t n_bytes, uint8_t* apart);
void put_halves_together(PlaneValues values, const uint8_t* apart, size_t n_bytes, uint8_t* raw);

}  // namespace cria
