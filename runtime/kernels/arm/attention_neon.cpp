// Attention scores and their exponentials for Advanced SIMD.
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/arm/neon.h"

#if !defined(__ARM_NEON)
#error "Build this file for Advanced SIMD (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include <cstring>

#include "runtime/kernels/arm/neon_math.h"
#include "runtime/kernels/arm/neon_scores.h"

namespace cria {
namespace {

struct NeonDot {
  // Two products fit 16 bits: codes are -127 ... 127.
  static int16x8_t pairs(int8x16_t q, int8x16_t k) {
    const int16x8_t products = vmull_s8(vget_low_s8(q), vget_low_s8(k));
    return vmlal_s8(products, vget_high_s8(q), vget_high_s8(k));
  }
  static int32x4_t first16(int8x16_t q, int8x16_t k) { return vpaddlq_s16(pairs(q, k)); }
  static int32x4_t add16(int32x4_t sum, int8x16_t q, int8x16_t k) {
    return vpadalq_s16(sum, pairs(q, k));
  }
};

void add_products(Lanes* lanes, const float* a, const float* b) {
  for (size_t v = 0; v < kVectorsPerLanes; ++v) {
    const size_t i = v * kFloatsPerVector;
    lanes->v[v] = vaddq_f32(lanes->v[v], vmulq_f32(vld1q_f32(a + i), vld1q_f32(b + i)));
  }
}

// Replaces 16 scores and adds the n first to lanes.
void exp16(float* scores, float max, size_t n, Lanes* lanes) {
  for (size_t v = 0; v < kVectorsPerLanes; ++v) {
    const float32x4_t score = vld1q_f32(scores + v * kFloatsPerVector);
    vst1q_f32(scores + v * kFloatsPerVector, exp_neon(vsubq_f32(score, vdupq_n_f32(max))));
  }
  for (size_t i = n; i < kSumLanes; ++i) scores[i] = 0.0f;
  for (size_t v = 0; v < kVectorsPerLanes; ++v) {
    lanes->v[v] = vaddq_f32(lanes->v[v], vld1q_f32(scores + v * kFloatsPerVector));
  }
}

}  // namespace

void scores_q8_neon(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                    const float* key_scales, float multiplier, size_t n, float* scores,
                    size_t stride) {
  scores_by_query<scores_q8_frame<NeonDot>>(q, head_dim, keys, key_scales, multiplier, n, scores,
                                            stride);
}

void scores_f32_neon(const float* q, size_t head_dim, const float* keys, float multiplier, size_t n,
                     float* scores) {
  const size_t whole = head_dim / kSumLanes * kSumLanes;
  const Tail q_tail = load_tail(q + whole, head_dim - whole);
  for (size_t j = 0; j < n; ++j, keys += head_dim) {
    Lanes lanes = zero_lanes();
    for (size_t d = 0; d < whole; d += kSumLanes) add_products(&lanes, q + d, keys + d);
    if (whole < head_dim) {
      add_products(&lanes, q_tail.values, load_tail(keys + whole, head_dim - whole).values);
    }
    scores[j] = sum_lanes_neon(lanes) * multiplier;
  }
}

float exp_sum_neon(float* scores, size_t n, float max) {
  Lanes lanes = zero_lanes();
  size_t j = 0;
  for (; j + kSumLanes <= n; j += kSumLanes) exp16(scores + j, max, kSumLanes, &lanes);
  if (j < n) {
    Tail tail = load_tail(scores + j, n - j);
    exp16(tail.values, max, n - j, &lanes);
    std::memcpy(scores + j, tail.values, (n - j) * sizeof(float));
  }
  return sum_lanes_neon(lanes);
}

}  // namespace cria
