// Attention kernels for Helium. Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/mcu/helium.h"

#if !defined(__ARM_FEATURE_MVE) || (__ARM_FEATURE_MVE & 2) == 0
#error "Build this file for Helium with floats (cmake/KernelFlags.cmake)."
#endif

#include <arm_mve.h>

#include <initializer_list>

#include "runtime/kernels/mcu/helium_math.h"
#include "runtime/kernels/query_loops.h"
#include "runtime/kernels/value_codes.h"

namespace cria {
namespace {

constexpr size_t kBytesPerVector = 16;
constexpr size_t kKeys = 4;  // positions whose scores make a vector

// Lanes of a vector of bytes, as first_lanes.
mve_pred16_t first_bytes(size_t n) { return vctp8q(static_cast<uint32_t>(n)); }

// Dot products of n <= 32 elements of q with kCount keys head_dim apart.
template <size_t kCount>
void dot_keys(const int8_t* q, const int8_t* keys, size_t head_dim, size_t n,
              int32_t (&dots)[kCount]) {
  const size_t rest = n < kBytesPerVector ? 0 : n - kBytesPerVector;
  const mve_pred16_t low = first_bytes(n);
  const mve_pred16_t high = first_bytes(rest);
  const int8x16_t q_low = vldrbq_z_s8(q, low);
  const int8x16_t q_high = vldrbq_z_s8(q + kBytesPerVector, high);
  for (size_t j = 0; j < kCount; ++j, keys += head_dim) {
    const int32_t dot = vmladavq_s8(q_low, vldrbq_z_s8(keys, low));
    dots[j] = vmladavaq_s8(dot, q_high, vldrbq_z_s8(keys + kBytesPerVector, high));
  }
}

size_t group_size(size_t head_dim, size_t begin) {
  const size_t rest = head_dim - begin;
  return rest < kActivationGroup ? rest : kActivationGroup;
}

float score_q8(const int8_t* q_codes, const float* q_scales, size_t head_dim, const int8_t* key) {
  float sum = 0.0f;
  for (size_t begin = 0; begin < head_dim; begin += kActivationGroup) {
    int32_t dot[1];
    dot_keys(q_codes + begin, key + begin, head_dim, group_size(head_dim, begin), dot);
    sum += static_cast<float>(dot[0]) * q_scales[begin / kActivationGroup];
  }
  return sum;
}

// Four positions at once: a lane each.
float32x4_t scores4_q8(const int8_t* q_codes, const float* q_scales, size_t head_dim,
                       const int8_t* keys) {
  float32x4_t sum = vdupq_n_f32(0.0f);
  for (size_t begin = 0; begin < head_dim; begin += kActivationGroup) {
    int32_t dots[kKeys];
    dot_keys(q_codes + begin, keys + begin, head_dim, group_size(head_dim, begin), dots);
    const int32x4_t four = {dots[0], dots[1], dots[2], dots[3]};
    const float q_scale = q_scales[begin / kActivationGroup];
    sum = vaddq_f32(sum, vmulq_n_f32(vcvtq_f32_s32(four), q_scale));
  }
  return sum;
}

float32x4_t load_values(const float* p, mve_pred16_t lanes) { return vldrwq_z_f32(p, lanes); }

float32x4_t load_values(const int8_t* p, mve_pred16_t lanes) {
  return vcvtq_f32_s32(vldrbq_z_s32(p, lanes));
}

// The scale of a position's values times its weight.
float weight_of(const float* weights, const float* scales, size_t j) {
  return weights[j] * scales[j];
}

float weight_of(const float* weights, std::nullptr_t /*scales*/, size_t j) { return weights[j]; }

// kVectors vectors of columns of out that begin at out, over all positions; n_columns of them.
template <size_t kVectors, class Element, class Scales>
void weighted_columns(const float* weights, const Element* values, Scales scales, size_t n,
                      size_t head_dim, float rescale, size_t n_columns, float* out) {
  mve_pred16_t lanes[kVectors];
  float32x4_t sums[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    lanes[v] = first_lanes(n_columns - v * kFloatsPerVector);
    sums[v] = vmulq_n_f32(vldrwq_z_f32(out + v * kFloatsPerVector, lanes[v]), rescale);
  }
  for (size_t j = 0; j < n; ++j, values += head_dim) {
    const float weight = weight_of(weights, scales, j);
    for (size_t v = 0; v < kVectors; ++v) {
      const float32x4_t value = load_values(values + v * kFloatsPerVector, lanes[v]);
      sums[v] = vaddq_f32(sums[v], vmulq_n_f32(value, weight));
    }
  }
  for (size_t v = 0; v < kVectors; ++v) {
    vstrwq_p_f32(out + v * kFloatsPerVector, sums[v], lanes[v]);
  }
}

// Columns of 16 stay in registers over all positions, then what is left by fours.
template <class Element, class Scales>
void weighted_sum(const float* weights, const Element* values, Scales scales, size_t n,
                  size_t head_dim, float rescale, float* out) {
  size_t d = 0;
  for (; d + kSumLanes <= head_dim; d += kSumLanes) {
    weighted_columns<kVectorsPerLanes>(weights, values + d, scales, n, head_dim, rescale, kSumLanes,
                                       out + d);
  }
  for (; d < head_dim; d += kFloatsPerVector) {
    weighted_columns<1>(weights, values + d, scales, n, head_dim, rescale, head_dim - d, out + d);
  }
}

// Where a column of a group of 4-bit values is: its first byte, and the nibble.
struct Nibbles {
  const uint8_t* first;
  int shift;  // 0 or 4
};

// Up to four columns of a group over all positions.
void weighted_nibbles(const float* weights, Nibbles values, size_t row_bytes,
                      const uint16_t* scales, size_t n_groups, size_t n, float rescale,
                      size_t n_columns, float* out) {
  const mve_pred16_t lanes = first_lanes(n_columns);
  float32x4_t sum = vmulq_n_f32(vldrwq_z_f32(out, lanes), rescale);
  const int32x4_t right = vdupq_n_s32(-values.shift);
  for (size_t j = 0; j < n; ++j, values.first += row_bytes) {
    const uint32x4_t pairs = vldrbq_z_u32(values.first, lanes);
    const uint32x4_t nibbles = vandq_u32(vshlq_u32(pairs, right), vdupq_n_u32(0x0f));
    const int32x4_t codes = vsubq_n_s32(vreinterpretq_s32_u32(nibbles), kNibbleZero);
    const float weight = weights[j] * value_scale_at(scales, j * n_groups);
    sum = vaddq_f32(sum, vmulq_n_f32(vcvtq_f32_s32(codes), weight));
  }
  vstrwq_p_f32(out, sum, lanes);
}

void scores_of_query(const int8_t* q_codes, const float* q_scales, size_t head_dim,
                     const int8_t* keys, const float* key_scales, float multiplier, size_t n,
                     float* scores) {
  size_t j = 0;
  for (; j + kKeys <= n; j += kKeys, keys += kKeys * head_dim) {
    const float32x4_t sums = scores4_q8(q_codes, q_scales, head_dim, keys);
    const float32x4_t scaled = vmulq_f32(sums, vldrwq_f32(key_scales + j));
    vstrwq_f32(scores + j, vmulq_n_f32(scaled, multiplier));
  }
  for (; j < n; ++j, keys += head_dim) {
    scores[j] = (score_q8(q_codes, q_scales, head_dim, keys) * key_scales[j]) * multiplier;
  }
}

void weighted_nibbles_of_query(const float* weights, const uint8_t* values,
                               const uint16_t* value_scales, size_t n, size_t head_dim,
                               float rescale, float* out) {
  const size_t row_bytes = value_bytes(head_dim);
  const size_t n_groups = value_groups(head_dim);
  for (size_t begin = 0; begin < head_dim; begin += kValueGroup, ++value_scales) {
    const size_t count = value_group_size(head_dim, begin);
    const size_t half = value_bytes(count);
    for (const int shift : {0, 4}) {
      const size_t n_columns = shift == 0 ? half : count - half;
      float* const columns = out + begin + (shift == 0 ? 0 : half);
      for (size_t i = 0; i < n_columns; i += kFloatsPerVector) {
        weighted_nibbles(weights, {values + begin / 2 + i, shift}, row_bytes, value_scales,
                         n_groups, n, rescale, n_columns - i, columns + i);
      }
    }
  }
}

}  // namespace

void scores_q8_helium(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                      const float* key_scales, float multiplier, size_t n, float* scores,
                      size_t stride) {
  scores_by_query<scores_of_query>(q, head_dim, keys, key_scales, multiplier, n, scores, stride);
}

void scores_f32_helium(const float* q, size_t head_dim, const float* keys, float multiplier,
                       size_t n, float* scores) {
  for (size_t j = 0; j < n; ++j, keys += head_dim) {
    Lanes lanes = zero_lanes();
    for (size_t d = 0; d < head_dim; d += kSumLanes) {
      for (size_t v = 0; v < kVectorsPerLanes; ++v) {
        const size_t at = d + v * kFloatsPerVector;
        if (at >= head_dim) break;
        const mve_pred16_t p = first_lanes(head_dim - at);
        const float32x4_t products = vmulq_f32(vldrwq_z_f32(q + at, p), vldrwq_z_f32(keys + at, p));
        lanes.v[v] = vaddq_f32(lanes.v[v], products);
      }
    }
    scores[j] = sum_lanes_helium(lanes) * multiplier;
  }
}

float exp_sum_helium(float* scores, size_t n, float max) {
  Lanes lanes = zero_lanes();
  for (size_t i = 0; i < n; i += kSumLanes) {
    for (size_t v = 0; v < kVectorsPerLanes; ++v) {
      const size_t at = i + v * kFloatsPerVector;
      if (at >= n) break;
      const mve_pred16_t p = first_lanes(n - at);
      const float32x4_t value = exp_helium(vsubq_n_f32(vldrwq_z_f32(scores + at, p), max));
      vstrwq_p_f32(scores + at, value, p);
      lanes.v[v] = vaddq_m_f32(lanes.v[v], lanes.v[v], value, p);
    }
  }
  return sum_lanes_helium(lanes);
}

void weighted_sum_q8_helium(const WeightRows& w, const int8_t* values, const float* value_scales,
                            size_t n, size_t head_dim, float* out) {
  weighted_sum_by_query<weighted_sum<int8_t, const float*>>(w, values, value_scales, n, head_dim,
                                                            out);
}

void weighted_sum_f32_helium(const float* weights, const float* values, size_t n, size_t head_dim,
                             float rescale, float* out) {
  weighted_sum(weights, values, nullptr, n, head_dim, rescale, out);
}

void weighted_sum_q4_helium(const WeightRows& w, const uint8_t* values,
                            const uint16_t* value_scales, size_t n, size_t head_dim, float* out) {
  weighted_sum_by_query<weighted_nibbles_of_query>(w, values, value_scales, n, head_dim, out);
}

}  // namespace cria
