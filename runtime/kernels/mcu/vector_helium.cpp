// Quantization, norms and element-wise kernels for Helium. Contracts are in
// runtime/kernels/kernels.h.
#include "runtime/kernels/mcu/helium.h"

#if !defined(__ARM_FEATURE_MVE) || (__ARM_FEATURE_MVE & 2) == 0
#error "Build this file for Helium with floats (cmake/KernelFlags.cmake)."
#endif

#include <arm_mve.h>

#include "runtime/kernels/mcu/helium_math.h"

namespace cria {
namespace {

constexpr float kLargestCode = 127.0f;
constexpr float kRoundMagic = 0x1.8p23f;  // as the scalar reference rounds
constexpr uint32_t kMagnitudeMask = 0x7fffffff;
constexpr uint32_t kInfinityBits = 0x7f800000;

// Largest |x| as bits: integers order like the magnitudes, and NaN comes out largest.
uint32_t largest_magnitude(const float* x, size_t n) {
  const uint32x4_t mask = vdupq_n_u32(kMagnitudeMask);
  uint32x4_t largest = vdupq_n_u32(0);
  for (size_t i = 0; i < n; i += kFloatsPerVector) {
    const float32x4_t values = vldrwq_z_f32(x + i, first_lanes(n - i));
    largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(values), mask));
  }
  return vmaxvq_u32(0, largest);
}

// Quantizes n activations; returns the sum of the codes.
int32_t quantize_group(const float* x, size_t n, float inverse, int8_t* codes) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; i += kFloatsPerVector) {
    const mve_pred16_t lanes = first_lanes(n - i);
    // Lanes after the end are zeros, whose codes are zeros.
    const float32x4_t scaled = vmulq_n_f32(vldrwq_z_f32(x + i, lanes), inverse);
    const float32x4_t rounded = vsubq_n_f32(vaddq_n_f32(scaled, kRoundMagic), kRoundMagic);
    const int32x4_t code = vcvtq_s32_f32(rounded);
    sum = vaddvaq_s32(sum, code);
    vstrbq_p_s32(codes + i, code, lanes);
  }
  return sum;
}

void clear_codes(int8_t* codes, size_t n) {
  for (size_t i = 0; i < n; i += sizeof(int8x16_t)) {
    vstrbq_p_s8(codes + i, vdupq_n_s8(0), vctp8q(static_cast<uint32_t>(n - i)));
  }
}

// Helium divides in the scalar unit only, whose registers are the vector's lanes.
float32x4_t divide(float32x4_t a, float32x4_t b) {
  const float32x4_t quotients = {a[0] / b[0], a[1] / b[1], a[2] / b[2], a[3] / b[3]};
  return quotients;
}

}  // namespace

void quantize_row_helium(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                         float* scales, int32_t* sums) {
  for (size_t begin = 0, g = 0; begin < n_padded; begin += group, ++g) {
    const size_t rest = begin < n ? n - begin : 0;
    const size_t count = rest < group ? rest : group;
    const uint32_t largest_bits = largest_magnitude(x + begin, count);
    const float largest = __builtin_bit_cast(float, largest_bits);
    const bool is_zero = largest_bits >= kInfinityBits || largest < kSmallestActivation;
    const size_t n_codes = is_zero ? 0 : count;
    scales[g] = is_zero ? 0.0f : largest / kLargestCode;
    const int32_t sum = quantize_group(x + begin, n_codes, kLargestCode / largest, codes + begin);
    clear_codes(codes + begin + n_codes, group - n_codes);
    if (sums != nullptr) sums[g] = sum;
  }
}

void rms_norm_helium(const float* x, const float* weight, size_t n, float epsilon, float* y) {
  Lanes lanes = zero_lanes();
  for (size_t i = 0; i < n; i += kSumLanes) {
    for (size_t v = 0; v < kVectorsPerLanes; ++v) {
      const size_t at = i + v * kFloatsPerVector;
      if (at >= n) break;
      // Adding the square of a zero changes no sum: none of them is -0.
      const float32x4_t values = vldrwq_z_f32(x + at, first_lanes(n - at));
      lanes.v[v] = vaddq_f32(lanes.v[v], vmulq_f32(values, values));
    }
  }
  const float mean = sum_lanes_helium(lanes) / static_cast<float>(n);
  const float r = 1.0f / __builtin_sqrtf(mean + epsilon);
  for (size_t i = 0; i < n; i += kFloatsPerVector) {
    const mve_pred16_t p = first_lanes(n - i);
    const float32x4_t scaled = vmulq_n_f32(vldrwq_z_f32(x + i, p), r);
    vstrwq_p_f32(y + i, vmulq_f32(scaled, vldrwq_z_f32(weight + i, p)), p);
  }
}

void rope_helium(float* x, size_t n_heads, size_t head_dim, const float* cos, const float* sin) {
  const size_t half = head_dim / 2;
  for (size_t head = 0; head < n_heads; ++head, x += head_dim) {
    for (size_t i = 0; i < half; i += kFloatsPerVector) {
      const mve_pred16_t p = first_lanes(half - i);
      const float32x4_t a = vldrwq_z_f32(x + i, p);
      const float32x4_t b = vldrwq_z_f32(x + half + i, p);
      const float32x4_t c = vldrwq_z_f32(cos + i, p);
      const float32x4_t s = vldrwq_z_f32(sin + i, p);
      vstrwq_p_f32(x + i, vsubq_f32(vmulq_f32(a, c), vmulq_f32(b, s)), p);
      vstrwq_p_f32(x + half + i, vaddq_f32(vmulq_f32(b, c), vmulq_f32(a, s)), p);
    }
  }
}

void silu_mul_helium(float* gate, const float* up, size_t n) {
  for (size_t i = 0; i < n; i += kFloatsPerVector) {
    const mve_pred16_t p = first_lanes(n - i);
    const float32x4_t g = vldrwq_z_f32(gate + i, p);
    const float32x4_t divisor = vaddq_n_f32(exp_helium(vnegq_f32(g)), 1.0f);
    vstrwq_p_f32(gate + i, vmulq_f32(divide(g, divisor), vldrwq_z_f32(up + i, p)), p);
  }
}

void add_scaled_helium(float* x, const float* y, float multiplier, size_t n) {
  for (size_t i = 0; i < n; i += kFloatsPerVector) {
    const mve_pred16_t p = first_lanes(n - i);
    const float32x4_t scaled = vmulq_n_f32(vldrwq_z_f32(y + i, p), multiplier);
    vstrwq_p_f32(x + i, vaddq_f32(vldrwq_z_f32(x + i, p), scaled), p);
  }
}

}  // namespace cria
