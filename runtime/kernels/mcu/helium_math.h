// Vector helpers shared by the Helium kernels. Tails are predicated: a lane after the end is
// neither read nor written. Sums are of a vector at a time, so 16 partial sums are four vectors.
#pragma once

#if defined(__ARM_FEATURE_MVE)

#include <arm_mve.h>

#include <cstddef>
#include <cstdint>

#include "runtime/base/scalar_math.h"
#include "runtime/kernels/kernels.h"

namespace cria {

inline constexpr size_t kFloatsPerVector = 4;
inline constexpr size_t kVectorsPerLanes = kSumLanes / kFloatsPerVector;
inline constexpr uint32_t kExpRoundMagicBits = 0x4b400000;
inline constexpr uint32_t kExponentBias = 127;
inline constexpr int kFractionBits = 23;

// Lanes 0 ... n - 1 of a vector of four, all of them when n is larger.
static inline mve_pred16_t first_lanes(size_t n) { return vctp32q(static_cast<uint32_t>(n)); }

// 16 partial sums, as the contract's "lanes".
struct Lanes {
  float32x4_t v[kVectorsPerLanes];
};

static inline Lanes zero_lanes() {
  const float32x4_t zero = vdupq_n_f32(0.0f);
  return {{zero, zero, zero, zero}};
}

// The contract's tree: 8 apart, 4, 2, 1.
static inline float sum_lanes_helium(const Lanes& lanes) {
  const float32x4_t low = vaddq_f32(lanes.v[0], lanes.v[2]);
  const float32x4_t high = vaddq_f32(lanes.v[1], lanes.v[3]);
  const float32x4_t four = vaddq_f32(low, high);
  const float first = vgetq_lane_f32(four, 0) + vgetq_lane_f32(four, 2);
  const float second = vgetq_lane_f32(four, 1) + vgetq_lane_f32(four, 3);
  return first + second;
}

// exp_f32 of runtime/base/scalar_math.h, step by step.
static inline float32x4_t exp_helium(float32x4_t x) {
  // VCMP's "less" holds for a NaN as well, its "greater" does not.
  const float32x4_t highest = vdupq_n_f32(kExpHighest);
  const float32x4_t limited = vpselq_f32(x, highest, vcmpgtq_f32(highest, x));
  const float32x4_t shifted = vaddq_n_f32(vmulq_n_f32(limited, kLog2E), kExpRoundMagic);
  const float32x4_t n = vsubq_n_f32(shifted, kExpRoundMagic);
  const float32x4_t high = vmulq_n_f32(n, kLn2High);
  const float32x4_t low = vmulq_n_f32(n, kLn2Low);
  const float32x4_t r = vsubq_f32(vsubq_f32(limited, high), low);
  float32x4_t p = vaddq_n_f32(vmulq_n_f32(r, kExpTaylor7), kExpTaylor6);
  p = vaddq_n_f32(vmulq_f32(p, r), kExpTaylor5);
  p = vaddq_n_f32(vmulq_f32(p, r), kExpTaylor4);
  p = vaddq_n_f32(vmulq_f32(p, r), kExpTaylor3);
  p = vaddq_n_f32(vmulq_f32(p, r), 0.5f);
  p = vaddq_n_f32(vmulq_f32(p, r), 1.0f);
  p = vaddq_n_f32(vmulq_f32(p, r), 1.0f);
  // The bias is added to the bits in the same step.
  const uint32x4_t bits =
      vsubq_n_u32(vreinterpretq_u32_f32(shifted), kExpRoundMagicBits - kExponentBias);
  const uint32x4_t power = vshlq_n_u32(bits, kFractionBits);
  const float32x4_t result = vmulq_f32(p, vreinterpretq_f32_u32(power));
  const mve_pred16_t is_zero = vcmpltq_n_f32(limited, kExpLowest);  // never a NaN
  return vpselq_f32(vdupq_n_f32(0.0f), result, is_zero);
}

}  // namespace cria

#endif  // __ARM_FEATURE_MVE
