// What the kernels of 4-bit values share. Everything is static: files of different ISAs include
// this, and no copy of one may serve another (overrides.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "quant/numbers/tile16.h"
#include "runtime/kernels/kernels.h"

namespace cria {

inline constexpr float kHighestValueCode = 7.0f;
inline constexpr size_t kValueHalf = kValueGroup / 2;  // elements that the low nibbles hold

// The scale at place i, as the float whose upper half it is.
static inline float value_scale_at(const uint16_t* scales, size_t i) {
  return std::bit_cast<float>(static_cast<uint32_t>(scales[i]) << 16);
}

struct ValueScale {
  uint16_t bits;
  float inverse;  // 0 for a group that counts as zeros
};

// The scale of a group by the bits of its largest magnitude, and of the largest among its negative
// elements.
static inline ValueScale find_value_scale(uint32_t largest, uint32_t largest_below) {
  constexpr uint32_t kInfinityBits = 0x7f800000;
  constexpr uint32_t kSignBit = 0x80000000;
  const auto magnitude = std::bit_cast<float>(largest);
  if (largest >= kInfinityBits || magnitude < kSmallestActivation) return {0, 0.0f};
  const auto eighth = std::bit_cast<uint32_t>(magnitude / 8.0f);
  // To bf16 as quant/numbers/float16.h, then the sign that gives -8 to the largest.
  const uint32_t rounded = (eighth + 0x7fff + ((eighth >> 16) & 1)) & 0xffff0000;
  const uint32_t scale = largest == largest_below ? rounded : rounded | kSignBit;
  return {static_cast<uint16_t>(scale >> 16), 1.0f / std::bit_cast<float>(scale)};
}

// Nibbles of h codes, then of h more, as quant/numbers/value_groups.h has them.
static inline void pack_value_codes(const int8_t* low, const int8_t* high, size_t h,
                                    uint8_t* codes) {
  for (size_t i = 0; i < h; ++i) {
    codes[i] = static_cast<uint8_t>((low[i] + kNibbleZero) | (high[i] + kNibbleZero) << 4);
  }
}

}  // namespace cria
