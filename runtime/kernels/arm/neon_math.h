// Vector helpers shared by the Arm kernels, the same for Armv7 and AArch64. Everything is static:
// files of different ISAs include this, and no copy of one may serve another (overrides.h).
#pragma once

#if defined(__ARM_NEON)

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/base/scalar_math.h"
#include "runtime/kernels/kernels.h"

namespace cria {

inline constexpr size_t kFloatsPerVector = 4;
inline constexpr size_t kVectorsPerLanes = kSumLanes / kFloatsPerVector;
inline constexpr float kNeonRoundMagic = 0x1.8p23f;  // x + it - it rounds |x| < 2^22 to even
inline constexpr uint32_t kNeonRoundMagicBits = 0x4b400000;

#if defined(__aarch64__)

// Rows of activations that a float product takes at once, and quarters of a tile that an integer
// one does with a single row: what 32 vector registers hold.
inline constexpr size_t kNeonBlockRows = 4;
inline constexpr size_t kOneRowQuarters = 4;

// Sums of neighbours: of a, then of b.
static inline int16x8_t add_pairs_s16(int16x8_t a, int16x8_t b) { return vpaddq_s16(a, b); }
static inline int32x4_t add_pairs_s32(int32x4_t a, int32x4_t b) { return vpaddq_s32(a, b); }

static inline float32x4_t divide_f32(float32x4_t a, float32x4_t b) { return vdivq_f32(a, b); }

// Bytes of a table, by their places 0 ... 15.
static inline int8x16_t look_up(int8x16_t table, uint8x16_t places) {
  return vqtbl1q_s8(table, places);
}

// The four bytes of one 32-bit lane, in all four lanes.
template <int kLane>
static inline int8x16_t repeat_quad(int8x16_t x) {
  return vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(x), kLane));
}

#else

inline constexpr size_t kNeonBlockRows = 2;  // 16 registers here
inline constexpr size_t kOneRowQuarters = 2;

static inline int16x8_t add_pairs_s16(int16x8_t a, int16x8_t b) {
  return vcombine_s16(vpadd_s16(vget_low_s16(a), vget_high_s16(a)),
                      vpadd_s16(vget_low_s16(b), vget_high_s16(b)));
}
static inline int32x4_t add_pairs_s32(int32x4_t a, int32x4_t b) {
  return vcombine_s32(vpadd_s32(vget_low_s32(a), vget_high_s32(a)),
                      vpadd_s32(vget_low_s32(b), vget_high_s32(b)));
}

// Armv7 divides in its scalar unit only; an estimate with Newton steps is not correctly rounded.
static inline float32x4_t divide_f32(float32x4_t a, float32x4_t b) {
  float quotient[kFloatsPerVector];
  float divisor[kFloatsPerVector];
  vst1q_f32(quotient, a);
  vst1q_f32(divisor, b);
  for (size_t i = 0; i < kFloatsPerVector; ++i) quotient[i] /= divisor[i];
  return vld1q_f32(quotient);
}

static inline int8x16_t look_up(int8x16_t table, uint8x16_t places) {
  const int8x8x2_t halves = {{vget_low_s8(table), vget_high_s8(table)}};
  const int8x16_t wanted = vreinterpretq_s8_u8(places);
  return vcombine_s8(vtbl2_s8(halves, vget_low_s8(wanted)), vtbl2_s8(halves, vget_high_s8(wanted)));
}

template <int kLane>
static inline int8x16_t repeat_quad(int8x16_t x) {
  const int32x4_t quads = vreinterpretq_s32_s8(x);
  const int32x2_t half = kLane < 2 ? vget_low_s32(quads) : vget_high_s32(quads);
  return vreinterpretq_s8_s32(vdupq_lane_s32(half, kLane % 2));
}

#endif

// 16 partial sums, as the contract's "lanes".
struct Lanes {
  float32x4_t v[kVectorsPerLanes];
};

static inline Lanes zero_lanes() {
  const float32x4_t zero = vdupq_n_f32(0.0f);
  return {{zero, zero, zero, zero}};
}

// The contract's tree: 8 apart, 4, 2, 1.
static inline float sum_lanes_neon(const Lanes& lanes) {
  const float32x4_t low = vaddq_f32(lanes.v[0], lanes.v[2]);
  const float32x4_t high = vaddq_f32(lanes.v[1], lanes.v[3]);
  const float32x4_t four = vaddq_f32(low, high);
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

// The last n < 16 floats of an array, with zeros after them, so that vectors may be read.
struct Tail {
  float values[kSumLanes];
};

static inline Tail load_tail(const float* x, size_t n) {
  Tail tail = {};
  std::memcpy(tail.values, x, n * sizeof(float));
  return tail;
}

// exp_f32 of runtime/base/scalar_math.h, step by step.
static inline float32x4_t exp_neon(float32x4_t x) {
  const float32x4_t magic = vdupq_n_f32(kNeonRoundMagic);
  const float32x4_t highest = vdupq_n_f32(kExpHighest);
  const float32x4_t limited = vbslq_f32(vcltq_f32(x, highest), x, highest);
  const float32x4_t shifted = vaddq_f32(vmulq_f32(limited, vdupq_n_f32(0x1.715476p+0f)), magic);
  const float32x4_t n = vsubq_f32(shifted, magic);
  const float32x4_t high = vmulq_f32(n, vdupq_n_f32(0x1.62e4p-1f));
  const float32x4_t low = vmulq_f32(n, vdupq_n_f32(0x1.7f7d1cp-20f));
  const float32x4_t r = vsubq_f32(vsubq_f32(limited, high), low);
  float32x4_t p = vdupq_n_f32(0x1.a01a02p-13f);
  p = vaddq_f32(vmulq_f32(p, r), vdupq_n_f32(0x1.6c16c2p-10f));
  p = vaddq_f32(vmulq_f32(p, r), vdupq_n_f32(0x1.111112p-7f));
  p = vaddq_f32(vmulq_f32(p, r), vdupq_n_f32(0x1.555556p-5f));
  p = vaddq_f32(vmulq_f32(p, r), vdupq_n_f32(0x1.555556p-3f));
  p = vaddq_f32(vmulq_f32(p, r), vdupq_n_f32(0.5f));
  p = vaddq_f32(vmulq_f32(p, r), vdupq_n_f32(1.0f));
  p = vaddq_f32(vmulq_f32(p, r), vdupq_n_f32(1.0f));
  const uint32x4_t bits =
      vsubq_u32(vreinterpretq_u32_f32(shifted), vdupq_n_u32(kNeonRoundMagicBits));
  const uint32x4_t power = vshlq_n_u32(vaddq_u32(bits, vdupq_n_u32(127)), 23);
  const float32x4_t result = vmulq_f32(p, vreinterpretq_f32_u32(power));
  const uint32x4_t is_zero = vcltq_f32(x, vdupq_n_f32(kExpLowest));
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(result), is_zero));
}

}  // namespace cria

#endif  // __ARM_NEON
