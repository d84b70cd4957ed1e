// Quantization, norms and element-wise kernels for Advanced SIMD.
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/arm/neon.h"

#if !defined(__ARM_NEON)
#error "Build this file for Advanced SIMD (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include <cstring>

#include "runtime/kernels/arm/neon_math.h"
#include "runtime/kernels/value_codes.h"

namespace cria {
namespace {

constexpr float kLargestCode = 127.0f;
constexpr uint32_t kMagnitudeMask = 0x7fffffff;
constexpr uint32_t kInfinityBits = 0x7f800000;

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint32x4_t max_magnitude(uint32x4_t largest, float32x4_t x) {
  const uint32x4_t magnitude = vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(kMagnitudeMask));
  return vmaxq_u32(largest, magnitude);
}

// Largest |x| as bits: integers order like the magnitudes, and NaN comes out largest.
uint32_t largest_magnitude(const float* x, size_t n) {
  uint32x4_t largest = vdupq_n_u32(0);
  size_t i = 0;
  for (; i + kFloatsPerVector <= n; i += kFloatsPerVector) {
    largest = max_magnitude(largest, vld1q_f32(x + i));
  }
  if (i < n) largest = max_magnitude(largest, vld1q_f32(load_tail(x + i, n - i).values));
  uint32x2_t pair = vmax_u32(vget_low_u32(largest), vget_high_u32(largest));
  pair = vpmax_u32(pair, pair);
  return vget_lane_u32(pair, 0);
}

int32x4_t quantize4(float32x4_t x, float inverse) {
  const float32x4_t magic = vdupq_n_f32(kNeonRoundMagic);
  return vcvtq_s32_f32(vsubq_f32(vaddq_f32(vmulq_n_f32(x, inverse), magic), magic));
}

// Codes of 16 activations; adds them to sum.
int8x16_t quantize16(const float* x, float inverse, int32x4_t* sum) {
  const int32x4_t a = quantize4(vld1q_f32(x), inverse);
  const int32x4_t b = quantize4(vld1q_f32(x + 4), inverse);
  const int32x4_t c = quantize4(vld1q_f32(x + 8), inverse);
  const int32x4_t d = quantize4(vld1q_f32(x + 12), inverse);
  *sum = vaddq_s32(*sum, vaddq_s32(vaddq_s32(a, b), vaddq_s32(c, d)));
  const int16x8_t low = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
  const int16x8_t high = vcombine_s16(vmovn_s32(c), vmovn_s32(d));
  return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

// Quantizes n activations; returns the sum of the codes.
int32_t quantize_group(const float* x, size_t n, float inverse, int8_t* codes) {
  int32x4_t sum = vdupq_n_s32(0);
  size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) vst1q_s8(codes + i, quantize16(x + i, inverse, &sum));
  if (i < n) {
    int8_t tail_codes[kSumLanes];
    vst1q_s8(tail_codes, quantize16(load_tail(x + i, n - i).values, inverse, &sum));
    std::memcpy(codes + i, tail_codes, n - i);
  }
  int32x2_t pair = vadd_s32(vget_low_s32(sum), vget_high_s32(sum));
  pair = vpadd_s32(pair, pair);
  return vget_lane_s32(pair, 0);
}

// Largest |x| among the negative ones, as bits.
uint32_t largest_below_zero(const float* x, size_t n) {
  uint32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const uint32_t magnitude = bits & kMagnitudeMask;
    if (bits != magnitude && magnitude > largest) largest = magnitude;
  }
  return largest;
}

// Codes of n <= 16 values, none above 7, zeros after.
void quantize_half(const float* x, size_t n, float inverse, int8_t (&codes)[kValueHalf]) {
  int32x4_t sum = vdupq_n_s32(0);
  const int8x16_t found = quantize16(load_tail(x, n).values, inverse, &sum);
  vst1q_s8(codes, vminq_s8(found, vdupq_n_s8(static_cast<int8_t>(kHighestValueCode))));
}

void add_squares(Lanes* lanes, const float* x) {
  for (size_t v = 0; v < kVectorsPerLanes; ++v) {
    const float32x4_t values = vld1q_f32(x + v * kFloatsPerVector);
    lanes->v[v] = vaddq_f32(lanes->v[v], vmulq_f32(values, values));
  }
}

float32x4_t silu_mul4(float32x4_t gate, float32x4_t up) {
  const float32x4_t divisor = vaddq_f32(vdupq_n_f32(1.0f), exp_neon(vnegq_f32(gate)));
  return vmulq_f32(divide_f32(gate, divisor), up);
}

// Elements begin ... of one head, whose halves are half apart.
void rotate4(float* x, size_t half, const float* cos, const float* sin) {
  const float32x4_t a = vld1q_f32(x);
  const float32x4_t b = vld1q_f32(x + half);
  const float32x4_t c = vld1q_f32(cos);
  const float32x4_t s = vld1q_f32(sin);
  vst1q_f32(x, vsubq_f32(vmulq_f32(a, c), vmulq_f32(b, s)));
  vst1q_f32(x + half, vaddq_f32(vmulq_f32(b, c), vmulq_f32(a, s)));
}

}  // namespace

void quantize_row_neon(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                       float* scales, int32_t* sums) {
  for (size_t begin = 0, g = 0; begin < n_padded; begin += group, ++g) {
    const size_t rest = begin < n ? n - begin : 0;
    const size_t count = rest < group ? rest : group;
    const uint32_t largest_bits = count == 0 ? 0 : largest_magnitude(x + begin, count);
    const float largest = float_of(largest_bits);
    int32_t sum = 0;
    if (largest_bits >= kInfinityBits || largest < kSmallestActivation) {
      scales[g] = 0.0f;
      std::memset(codes + begin, 0, group);
    } else {
      scales[g] = largest / kLargestCode;
      sum = quantize_group(x + begin, count, kLargestCode / largest, codes + begin);
      std::memset(codes + begin + count, 0, group - count);
    }
    if (sums != nullptr) sums[g] = sum;
  }
}

void quantize_values_neon(const float* x, size_t n, uint8_t* codes, uint16_t* scales) {
  for (size_t begin = 0; begin < n; begin += kValueGroup) {
    const size_t count = value_group_size(n, begin);
    const size_t half = value_bytes(count);
    const ValueScale scale =
        find_value_scale(largest_magnitude(x + begin, count), largest_below_zero(x + begin, count));
    scales[begin / kValueGroup] = scale.bits;
    int8_t low[kValueHalf] = {};
    int8_t high[kValueHalf] = {};
    if (scale.bits != 0) {
      quantize_half(x + begin, half, scale.inverse, low);
      quantize_half(x + begin + half, count - half, scale.inverse, high);
    }
    pack_value_codes(low, high, half, codes + begin / 2);
  }
}

void rms_norm_neon(const float* x, const float* weight, size_t n, float epsilon, float* y) {
  if (n == 0) return;
  Lanes lanes = zero_lanes();
  size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) add_squares(&lanes, x + i);
  if (i < n) add_squares(&lanes, load_tail(x + i, n - i).values);
  const float mean = sum_lanes_neon(lanes) / static_cast<float>(n);
  const float r = 1.0f / __builtin_sqrtf(mean + epsilon);
  for (i = 0; i + kFloatsPerVector <= n; i += kFloatsPerVector) {
    vst1q_f32(y + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), r), vld1q_f32(weight + i)));
  }
  for (; i < n; ++i) y[i] = (x[i] * r) * weight[i];
}

void rope_neon(float* x, size_t n_heads, size_t head_dim, const float* cos, const float* sin) {
  const size_t half = head_dim / 2;
  for (size_t head = 0; head < n_heads; ++head, x += head_dim) {
    size_t i = 0;
    for (; i + kFloatsPerVector <= half; i += kFloatsPerVector) {
      rotate4(x + i, half, cos + i, sin + i);
    }
    for (; i < half; ++i) {
      const float a = x[i];
      const float b = x[i + half];
      x[i] = a * cos[i] - b * sin[i];
      x[i + half] = b * cos[i] + a * sin[i];
    }
  }
}

void silu_mul_neon(float* gate, const float* up, size_t n) {
  size_t i = 0;
  for (; i + kFloatsPerVector <= n; i += kFloatsPerVector) {
    vst1q_f32(gate + i, silu_mul4(vld1q_f32(gate + i), vld1q_f32(up + i)));
  }
  if (i == n) return;
  Tail tail = load_tail(gate + i, n - i);
  const Tail up_tail = load_tail(up + i, n - i);
  vst1q_f32(tail.values, silu_mul4(vld1q_f32(tail.values), vld1q_f32(up_tail.values)));
  std::memcpy(gate + i, tail.values, (n - i) * sizeof(float));
}

void add_scaled_neon(float* x, const float* y, float multiplier, size_t n) {
  size_t i = 0;
  for (; i + kFloatsPerVector <= n; i += kFloatsPerVector) {
    vst1q_f32(x + i, vaddq_f32(vld1q_f32(x + i), vmulq_n_f32(vld1q_f32(y + i), multiplier)));
  }
  for (; i < n; ++i) x[i] += y[i] * multiplier;
}

}  // namespace cria
