// Attention kernels for Advanced SIMD.
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/arm/neon.h"

#if !defined(__ARM_NEON)
#error "Build this file for Advanced SIMD (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include <cstring>

#include "runtime/kernels/arm/neon_math.h"
#include "runtime/kernels/arm/neon_scores.h"
#include "runtime/kernels/value_codes.h"

namespace cria {
namespace {

struct NeonDot {
  // Two products fit 16 bits: codes are -127 ... 127.
  static int32x4_t add16(int32x4_t sum, int8x16_t q, int8x16_t k) {
    int16x8_t products = vmull_s8(vget_low_s8(q), vget_low_s8(k));
    products = vmlal_s8(products, vget_high_s8(q), vget_high_s8(k));
    return vpadalq_s16(sum, products);
  }
};

void add_products(Lanes* lanes, const float* a, const float* b) {
  for (size_t v = 0; v < kVectorsPerLanes; ++v) {
    const size_t i = v * kFloatsPerVector;
    lanes->v[v] = vaddq_f32(lanes->v[v], vmulq_f32(vld1q_f32(a + i), vld1q_f32(b + i)));
  }
}

// 16 values of one position as floats.
struct Values {
  float32x4_t v[kVectorsPerLanes];
};

Values load_values(const float* p) {
  return {{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}

Values to_floats(int8x16_t bytes) {
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
  const int16x8_t high = vmovl_s8(vget_high_s8(bytes));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
           vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}

Values load_values(const int8_t* p) { return to_floats(vld1q_s8(p)); }

// Of 16 pairs of nibbles those at kShift.
template <int kShift>
int8x16_t nibbles_at(uint8x16_t pairs) {
  if constexpr (kShift == 0) {
    return vreinterpretq_s8_u8(vandq_u8(pairs, vdupq_n_u8(0x0f)));
  } else {
    return vreinterpretq_s8_u8(vshrq_n_u8(pairs, kShift));
  }
}

// The scale of a position's values times its weight.
float weight_of(const float* weights, const float* scales, size_t j) {
  return weights[j] * scales[j];
}

float weight_of(const float* weights, std::nullptr_t /*scales*/, size_t j) { return weights[j]; }

// Columns of 16 stay in registers over all positions.
template <class Element, class Scales>
void weighted_sum(const float* weights, const Element* values, Scales scales, size_t n,
                  size_t head_dim, float rescale, float* out) {
  size_t d = 0;
  for (; d + kSumLanes <= head_dim; d += kSumLanes) {
    Values sum = load_values(out + d);
    for (float32x4_t& v : sum.v) v = vmulq_n_f32(v, rescale);
    for (size_t j = 0; j < n; ++j) {
      const Values value = load_values(values + j * head_dim + d);
      const float weight = weight_of(weights, scales, j);
      for (size_t v = 0; v < kVectorsPerLanes; ++v) {
        sum.v[v] = vaddq_f32(sum.v[v], vmulq_n_f32(value.v[v], weight));
      }
    }
    for (size_t v = 0; v < kVectorsPerLanes; ++v) vst1q_f32(out + d + v * 4, sum.v[v]);
  }
  for (; d < head_dim; ++d) {
    float sum = out[d] * rescale;
    for (size_t j = 0; j < n; ++j) {
      sum += weight_of(weights, scales, j) * static_cast<float>(values[j * head_dim + d]);
    }
    out[d] = sum;
  }
}

// A head's values in 4 bits, from one group on.
struct ValueGroups {
  const uint8_t* codes;
  const uint16_t* scales;
  size_t row_bytes;
  size_t n_groups;
  // The group's scale at position j times the position's weight.
  float weight(const float* weights, size_t j) const {
    return weights[j] * value_scale_at(scales, j * n_groups);
  }
};

// The count columns of out that have the nibbles at kShift of a group. Both halves of a group at
// once would take more registers than Armv7 has.
template <int kShift>
void weighted_nibbles(const float* weights, const ValueGroups& values, size_t n, size_t count,
                      float rescale, float* out) {
  if (count == kSumLanes) {
    Values sum = load_values(out);
    for (float32x4_t& v : sum.v) v = vmulq_n_f32(v, rescale);
    for (size_t j = 0; j < n; ++j) {
      const int8x16_t nibbles = nibbles_at<kShift>(vld1q_u8(values.codes + j * values.row_bytes));
      const Values value = to_floats(vsubq_s8(nibbles, vdupq_n_s8(kNibbleZero)));
      const float weight = values.weight(weights, j);
      for (size_t v = 0; v < kVectorsPerLanes; ++v) {
        sum.v[v] = vaddq_f32(sum.v[v], vmulq_n_f32(value.v[v], weight));
      }
    }
    for (size_t v = 0; v < kVectorsPerLanes; ++v) vst1q_f32(out + v * kFloatsPerVector, sum.v[v]);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    float sum = out[i] * rescale;
    for (size_t j = 0; j < n; ++j) {
      const int nibble = (values.codes[j * values.row_bytes + i] >> kShift) & 0x0f;
      sum += values.weight(weights, j) * static_cast<float>(nibble - kNibbleZero);
    }
    out[i] = sum;
  }
}

void weighted_nibbles_of_query(const float* weights, const uint8_t* values,
                               const uint16_t* value_scales, size_t n, size_t head_dim,
                               float rescale, float* out) {
  const size_t row_bytes = value_bytes(head_dim);
  const size_t n_groups = value_groups(head_dim);
  for (size_t g = 0; g < n_groups; ++g) {
    const size_t count = value_group_size(head_dim, g * kValueGroup);
    const size_t half = value_bytes(count);
    const ValueGroups group = {values + g * kValueHalf, value_scales + g, row_bytes, n_groups};
    weighted_nibbles<0>(weights, group, n, half, rescale, out + g * kValueGroup);
    weighted_nibbles<4>(weights, group, n, count - half, rescale, out + g * kValueGroup + half);
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

void weighted_sum_q8_neon(const WeightRows& w, const int8_t* values, const float* value_scales,
                          size_t n, size_t head_dim, float* out) {
  weighted_sum_by_query<weighted_sum<int8_t, const float*>>(w, values, value_scales, n, head_dim,
                                                            out);
}

void weighted_sum_f32_neon(const float* weights, const float* values, size_t n, size_t head_dim,
                           float rescale, float* out) {
  weighted_sum(weights, values, nullptr, n, head_dim, rescale, out);
}

void weighted_sum_q4_neon(const WeightRows& w, const uint8_t* values, const uint16_t* value_scales,
                          size_t n, size_t head_dim, float* out) {
  weighted_sum_by_query<weighted_nibbles_of_query>(w, values, value_scales, n, head_dim, out);
}

}  // namespace cria
