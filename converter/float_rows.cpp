#include "converter/float_rows.h"

#include <bit>
#include <cstring>

#include "quant/numbers/float16.h"
#include "quant/numbers/multiversion.h"

namespace cria::converter {
namespace {

constexpr uint32_t kExponentMask = 0x7f800000;
constexpr uint32_t kMagnitudeMask = 0x7fffffff;

// f16_to_f32 without branches, so that the loop around it vectorizes: the half's exponent and
// fraction, moved into place, make the float of 2^-112 times the value, subnormals included.
float widen_half(uint16_t bits) {
  constexpr float kUnscale = 0x1p112f;
  constexpr uint32_t kHalfMagnitude = 0x7fff;
  constexpr uint32_t kHalfInfinity = 0x7c00;
  const uint32_t magnitude = bits & kHalfMagnitude;
  const float scaled = std::bit_cast<float>(magnitude << 13) * kUnscale;
  const uint32_t infinite = magnitude >= kHalfInfinity ? kExponentMask : 0;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | infinite | sign);
}

}  // namespace

CRIA_MULTIVERSION void widen(SourceType type, const uint8_t* bytes, size_t n, float* values) {
  if (type == SourceType::kF32) {
    std::memcpy(values, bytes, n * sizeof(float));
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
    values[i] = type == SourceType::kBf16 ? bf16_to_f32(bits) : widen_half(bits);
  }
}

CRIA_MULTIVERSION bool all_finite(const float* values, size_t n) {
  uint32_t broken = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t exponent = std::bit_cast<uint32_t>(values[i]) & kExponentMask;
    broken |= exponent == kExponentMask ? 1 : 0;
  }
  return broken == 0;
}

CRIA_MULTIVERSION float largest_magnitude(const float* values, size_t n) {
  // Magnitudes of floats order as their bits do.
  int32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto magnitude =
        static_cast<int32_t>(std::bit_cast<uint32_t>(values[i]) & kMagnitudeMask);
    largest = magnitude > largest ? magnitude : largest;
  }
  return std::bit_cast<float>(largest);
}

}  // namespace cria::converter
