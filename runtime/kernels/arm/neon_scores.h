// Attention scores over int8 keys, the frame that NEON and dotprod share. An ISA supplies Dot:
//   static int32x4_t add16(int32x4_t sum, int8x16_t q, int8x16_t k);
// adds the 16 products q * k to the lanes of sum in any order.
#pragma once

#if defined(__ARM_NEON)

#include <arm_neon.h>

#include "runtime/kernels/arm/neon_math.h"
#include "runtime/kernels/query_loops.h"

namespace cria {

inline constexpr size_t kBytesPerVector = 16;

// The n < 16 last elements of an int8 array, with zeros behind them.
static inline int8x16_t load_bytes(const int8_t* p, size_t n) {
  int8_t bytes[kBytesPerVector] = {};
  std::memcpy(bytes, p, n);
  return vld1q_s8(bytes);
}

// Dot products of n <= 32 elements of q with kKeys keys head_dim apart, their lanes not yet added.
template <class Dot, size_t kKeys>
static inline void dot_keys(const int8_t* q, const int8_t* keys, size_t head_dim, size_t n,
                            int32x4_t (&dots)[kKeys]) {
  for (size_t j = 0; j < kKeys; ++j) dots[j] = vdupq_n_s32(0);
  size_t d = 0;
  for (; d + kBytesPerVector <= n; d += kBytesPerVector) {
    const int8x16_t query = vld1q_s8(q + d);
    for (size_t j = 0; j < kKeys; ++j) {
      dots[j] = Dot::add16(dots[j], query, vld1q_s8(keys + j * head_dim + d));
    }
  }
  if (d == n) return;
  const int8x16_t query = load_bytes(q + d, n - d);
  for (size_t j = 0; j < kKeys; ++j) {
    dots[j] = Dot::add16(dots[j], query, load_bytes(keys + j * head_dim + d, n - d));
  }
}

// Four positions at once: a lane each.
template <class Dot>
static inline float32x4_t scores4_q8(const int8_t* q_codes, const float* q_scales, size_t head_dim,
                                     const int8_t* keys) {
  float32x4_t sum = vdupq_n_f32(0.0f);
  for (size_t begin = 0; begin < head_dim; begin += kActivationGroup) {
    const size_t rest = head_dim - begin;
    const size_t n = rest < kActivationGroup ? rest : kActivationGroup;
    int32x4_t dots[4];
    dot_keys<Dot, 4>(q_codes + begin, keys + begin, head_dim, n, dots);
    const int32x4_t four =
        add_pairs_s32(add_pairs_s32(dots[0], dots[1]), add_pairs_s32(dots[2], dots[3]));
    const float q_scale = q_scales[begin / kActivationGroup];
    sum = vaddq_f32(sum, vmulq_n_f32(vcvtq_f32_s32(four), q_scale));
  }
  return sum;
}

template <class Dot>
static inline float score_q8(const int8_t* q_codes, const float* q_scales, size_t head_dim,
                             const int8_t* key) {
  float sum = 0.0f;
  for (size_t begin = 0; begin < head_dim; begin += kActivationGroup) {
    const size_t rest = head_dim - begin;
    const size_t n = rest < kActivationGroup ? rest : kActivationGroup;
    int32x4_t dots[1];
    dot_keys<Dot, 1>(q_codes + begin, key + begin, head_dim, n, dots);
    const int32x4_t pairs = add_pairs_s32(dots[0], dots[0]);
    const int32_t dot = vgetq_lane_s32(pairs, 0) + vgetq_lane_s32(pairs, 1);
    sum += static_cast<float>(dot) * q_scales[begin / kActivationGroup];
  }
  return sum;
}

template <class Dot>
static inline void scores_q8_frame(const int8_t* q_codes, const float* q_scales, size_t head_dim,
                                   const int8_t* keys, const float* key_scales, float multiplier,
                                   size_t n, float* scores) {
  size_t j = 0;
  for (; j + kFloatsPerVector <= n; j += kFloatsPerVector) {
    const float32x4_t sums = scores4_q8<Dot>(q_codes, q_scales, head_dim, keys + j * head_dim);
    const float32x4_t scaled = vmulq_f32(sums, vld1q_f32(key_scales + j));
    vst1q_f32(scores + j, vmulq_n_f32(scaled, multiplier));
  }
  for (; j < n; ++j) {
    const float sum = score_q8<Dot>(q_codes, q_scales, head_dim, keys + j * head_dim);
    scores[j] = (sum * key_scales[j]) * multiplier;
  }
}

}  // namespace cria

#endif  // __ARM_NEON
