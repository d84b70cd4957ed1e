// Conversions between f32 and the 16-bit floats of checkpoints and model files. Rounding is to
// nearest, ties to even; NaN stays NaN; f32 subnormals are kept where the target can hold them.
// Values are handled as bits, so results do not depend on the target's floating-point modes.
#pragma once

#include <bit>
#include <cstdint>

namespace cria {

[[nodiscard]] constexpr float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

[[nodiscard]] constexpr uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x0040);
  const uint32_t round = 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>((bits + round) >> 16);
}

[[nodiscard]] constexpr float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
  if (exponent == 0) {
    if (fraction == 0) return std::bit_cast<float>(sign);
    // A subnormal half is a normal float: shift its leading bit out.
    exponent = 1;
    while ((fraction & 0x400) == 0) {
      fraction <<= 1;
      --exponent;
    }
    fraction &= 0x3ff;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

[[nodiscard]] constexpr uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds past 65504
  if (magnitude < 0x33000000) return static_cast<uint16_t>(sign);            // under half of 2^-24
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
  // Normal halves drop 13 fraction bits; subnormal ones drop one more for each step below -14.
  const int shift = exponent >= -14 ? 13 : -1 - exponent;
  const uint32_t kept = fraction >> shift;
  const uint32_t rest = fraction & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  const uint32_t rounded = kept + ((rest > half || (rest == half && (kept & 1) != 0)) ? 1 : 0);
  // kept holds the implicit bit of a normal half, so its exponent field is one less than stored.
  const uint32_t base = exponent >= -14 ? static_cast<uint32_t>(exponent + 14) << 10 : 0;
  return static_cast<uint16_t>(sign | (base + rounded));
}

}  // namespace cria
