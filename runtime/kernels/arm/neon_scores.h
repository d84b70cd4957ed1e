// Attention scores over int8 keys, the frame that NEON and dotprod share. An ISA supplies Dot:
//   static int32x4_t first16(int8x16_t q, int8x16_t k);
//   static int32x4_t add16(int32x4_t sum, int8x16_t q, int8x16_t k);
// give the 16 products q * k, or add them to the lanes of sum, in any order.
#pragma once

#if defined(__ARM_NEON)

#include <arm_neon.h>

#include "runtime/kernels/arm/neon_math.h"
#include "runtime/kernels/query_loops.h"

namespace cria {

inline constexpr size_t kBytesPerVector = 16;
inline constexpr size_t kLaneKeys = 4;  // whose scores are the lanes of a vector

// A group of kKeys keys: where they are, and from one to the next.
struct KeyRows {
  const int8_t* keys;
  size_t stride;
};

// Whole keys stay where they are. Of a group of n < 32 inputs, or of fewer than kKeys keys, padded
// becomes a copy with zeros after.
template <size_t kKeys>
static inline KeyRows pad_keys(const int8_t* keys, size_t head_dim, size_t n_keys, size_t n,
                               int8_t (&padded)[kKeys][kActivationGroup]) {
  if (n_keys == kKeys && n == kActivationGroup) return {keys, head_dim};
  std::memset(padded, 0, sizeof padded);
  for (size_t j = 0; j < n_keys; ++j) std::memcpy(padded[j], keys + j * head_dim, n);
  return {padded[0], kActivationGroup};
}

// The integer dot products of a group, a lane for each of four keys.
template <class Dot>
static inline int32x4_t dot_keys(const int8_t* q, const KeyRows& rows) {
  const int8x16_t first = vld1q_s8(q);
  const int8x16_t second = vld1q_s8(q + kBytesPerVector);
  int32x4_t dots[kLaneKeys];
#pragma GCC unroll 4
  for (size_t j = 0; j < kLaneKeys; ++j) {
    const int8_t* const key = rows.keys + j * rows.stride;
    dots[j] = Dot::first16(first, vld1q_s8(key));
    dots[j] = Dot::add16(dots[j], second, vld1q_s8(key + kBytesPerVector));
  }
  return add_pairs_s32(add_pairs_s32(dots[0], dots[1]), add_pairs_s32(dots[2], dots[3]));
}

// The scores of n_keys <= 4 keys, not yet scaled.
template <class Dot>
static inline float32x4_t sums_of_keys(const int8_t* q_codes, const float* q_scales,
                                       size_t head_dim, const int8_t* keys, size_t n_keys) {
  float32x4_t sum = vdupq_n_f32(0.0f);
  const auto add = [&](size_t group, const KeyRows& rows) {
    const int32x4_t dots = dot_keys<Dot>(q_codes + group * kActivationGroup, rows);
    sum = vaddq_f32(sum, vmulq_n_f32(vcvtq_f32_s32(dots), q_scales[group]));
  };
  const size_t n_whole = n_keys == kLaneKeys ? head_dim / kActivationGroup : 0;
  for (size_t g = 0; g < n_whole; ++g) add(g, {keys + g * kActivationGroup, head_dim});
  for (size_t begin = n_whole * kActivationGroup; begin < head_dim; begin += kActivationGroup) {
    const size_t rest = head_dim - begin;
    int8_t padded[kLaneKeys][kActivationGroup];
    const size_t n = rest < kActivationGroup ? rest : kActivationGroup;
    add(begin / kActivationGroup, pad_keys(keys + begin, head_dim, n_keys, n, padded));
  }
  return sum;
}

template <class Dot>
static inline void scores_q8_frame(const int8_t* q_codes, const float* q_scales, size_t head_dim,
                                   const int8_t* keys, const float* key_scales, float multiplier,
                                   size_t n, float* scores) {
  const auto sums = [&](size_t j, size_t n_keys) {
    return sums_of_keys<Dot>(q_codes, q_scales, head_dim, keys + j * head_dim, n_keys);
  };
  size_t j = 0;
  for (; j + kLaneKeys <= n; j += kLaneKeys) {
    const float32x4_t scaled = vmulq_f32(sums(j, kLaneKeys), vld1q_f32(key_scales + j));
    vst1q_f32(scores + j, vmulq_n_f32(scaled, multiplier));
  }
  if (j == n) return;
  float rest[kLaneKeys];
  vst1q_f32(rest, sums(j, n - j));
  for (size_t i = 0; j + i < n; ++i) scores[j + i] = (rest[i] * key_scales[j + i]) * multiplier;
}

}  // namespace cria

#endif  // __ARM_NEON
