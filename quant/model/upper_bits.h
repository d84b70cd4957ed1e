// Values with their upper bits apart from the lower ones, as chunks are compressed
// (docs/model_format.md, part 4). The bits below a code's sign, and the upper byte of a bf16 scale,
// are mostly the same: what there is to win by compression is in them. Lower bits are nearly
// random, and stay as they are: they are read to where the values will be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/model/tensor_check.h"

namespace cria {

// Of values that have them: one bit of a code of four, two of one of eight, a byte of two bytes.
enum class UpperBits { kNone, kOfNibbles, kOfInt8, kOfTwoBytes };

[[nodiscard]] constexpr UpperBits upper_bits_of(PlaneValues values) {
  switch (values) {
    case PlaneValues::kNibbleCodes:
      return UpperBits::kOfNibbles;
    case PlaneValues::kInt8Codes:
      return UpperBits::kOfInt8;
    case PlaneValues::kF16:
    case PlaneValues::kBf16:
    case PlaneValues::kBf16Scales:
    case PlaneValues::kSignedBf16Scales:
      return UpperBits::kOfTwoBytes;
    case PlaneValues::kTrainedBits:
    case PlaneValues::kF32:
    case PlaneValues::kF32Scales:
    case PlaneValues::kF16Scales:
    case PlaneValues::kRopeFrequencies:
      break;
  }
  return UpperBits::kNone;
}

// Bytes of the upper bits of n_bytes of values.
[[nodiscard]] constexpr size_t upper_bit_bytes(PlaneValues values, size_t n_bytes) {
  const UpperBits kind = upper_bits_of(values);
  if (kind == UpperBits::kNone) return 0;
  return kind == UpperBits::kOfTwoBytes ? n_bytes / 2 : n_bytes / 4;
}

// n_bytes is a multiple of 32, as that of whole tiles is, and upper_bit_bytes not 0.
// raw [n_bytes] -> lower [n_bytes - upper_bit_bytes], upper [upper_bit_bytes]. The arrays do not
// overlap.
void take_upper_bits(PlaneValues values, const uint8_t* raw, size_t n_bytes, uint8_t* lower,
                     uint8_t* upper);
// And back, in place: raw [n_bytes] begins with the lower bits. upper does not overlap it.
void put_upper_bits(PlaneValues values, const uint8_t* upper, size_t n_bytes, uint8_t* raw);

}  // namespace cria
