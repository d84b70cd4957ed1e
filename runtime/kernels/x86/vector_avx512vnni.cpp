// Float vectors for processors with AVX-512. Contracts are in runtime/kernels/kernels.h; the 16
// partial sums of "lanes" are the lanes of one register.
#include "runtime/base/scalar_math.h"
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/x86/kernels_avx512vnni.h"

#if !defined(__AVX512F__) || !defined(__AVX512DQ__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/lanes_avx512.h"

namespace cria {
namespace {

static_assert(kLanes == kSumLanes);

// The contract's tree.
float sum_lanes(__m512 lanes) {
  const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

// exp_f32 of runtime/base/scalar_math.h, step by step. The minimum gives its second operand for
// NaN, as the comparison there does.
__m512 exp_lanes(__m512 x) {
  const __m512 magic = _mm512_set1_ps(kExpRoundMagic);
  const __m512 limited = _mm512_min_ps(x, _mm512_set1_ps(kExpHighest));
  const __m512 shifted = _mm512_add_ps(_mm512_mul_ps(limited, _mm512_set1_ps(kLog2E)), magic);
  const __m512 n = _mm512_sub_ps(shifted, magic);
  const __m512 r = _mm512_sub_ps(_mm512_sub_ps(limited, _mm512_mul_ps(n, _mm512_set1_ps(kLn2High))),
                                 _mm512_mul_ps(n, _mm512_set1_ps(kLn2Low)));
  __m512 p = _mm512_set1_ps(kExpTaylor7);
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(kExpTaylor6));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(kExpTaylor5));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(kExpTaylor4));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(kExpTaylor3));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(0.5f));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(1.0f));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(1.0f));
  const __m512i exponent =
      _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(magic));
  const __m512i power = _mm512_slli_epi32(_mm512_add_epi32(exponent, _mm512_set1_epi32(127)), 23);
  const __mmask16 is_low = _mm512_cmp_ps_mask(x, _mm512_set1_ps(kExpLowest), _CMP_LT_OQ);
  return _mm512_mask_mul_ps(_mm512_setzero_ps(), static_cast<__mmask16>(~is_low), p,
                            _mm512_castsi512_ps(power));
}

}  // namespace

void rms_norm_avx512vnni(const float* x, const float* weight, size_t n, float epsilon, float* y) {
  __m512 lanes = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += kLanes) {
    const __m512 value = _mm512_maskz_loadu_ps(lanes_of(n - i), x + i);
    lanes = _mm512_add_ps(lanes, _mm512_mul_ps(value, value));
  }
  const float mean = sum_lanes(lanes) / static_cast<float>(n);
  const float root = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + epsilon)));
  const __m512 r = _mm512_set1_ps(1.0f / root);
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 mask = lanes_of(n - i);
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), r);
    _mm512_mask_storeu_ps(y + i, mask,
                          _mm512_mul_ps(scaled, _mm512_maskz_loadu_ps(mask, weight + i)));
  }
}

void rope_avx512vnni(float* x, size_t n_heads, size_t head_dim, const float* cos,
                     const float* sin) {
  const size_t half = head_dim / 2;
  for (size_t head = 0; head < n_heads; ++head, x += head_dim) {
    for (size_t i = 0; i < half; i += kLanes) {
      const __mmask16 mask = lanes_of(half - i);
      const __m512 a = _mm512_maskz_loadu_ps(mask, x + i);
      const __m512 b = _mm512_maskz_loadu_ps(mask, x + half + i);
      const __m512 c = _mm512_maskz_loadu_ps(mask, cos + i);
      const __m512 s = _mm512_maskz_loadu_ps(mask, sin + i);
      const __m512 new_a = _mm512_sub_ps(_mm512_mul_ps(a, c), _mm512_mul_ps(b, s));
      const __m512 new_b = _mm512_add_ps(_mm512_mul_ps(b, c), _mm512_mul_ps(a, s));
      _mm512_mask_storeu_ps(x + i, mask, new_a);
      _mm512_mask_storeu_ps(x + half + i, mask, new_b);
    }
  }
}

void silu_mul_avx512vnni(float* gate, const float* up, size_t n) {
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 sign = _mm512_set1_ps(-0.0f);
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 mask = lanes_of(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(mask, gate + i);
    const __m512 below = _mm512_add_ps(one, exp_lanes(_mm512_xor_ps(g, sign)));
    const __m512 u = _mm512_maskz_loadu_ps(mask, up + i);
    _mm512_mask_storeu_ps(gate + i, mask, _mm512_mul_ps(_mm512_div_ps(g, below), u));
  }
}

void add_scaled_avx512vnni(float* x, const float* y, float multiplier, size_t n) {
  const __m512 factor = _mm512_set1_ps(multiplier);
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 mask = lanes_of(n - i);
    const __m512 product = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, y + i), factor);
    _mm512_mask_storeu_ps(x + i, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x + i), product));
  }
}

float exp_sum_avx512vnni(float* scores, size_t n, float max) {
  const __m512 largest = _mm512_set1_ps(max);
  __m512 lanes = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 mask = lanes_of(n - i);
    const __m512 value = exp_lanes(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, scores + i), largest));
    _mm512_mask_storeu_ps(scores + i, mask, value);
    lanes = _mm512_mask_add_ps(lanes, mask, lanes, value);
  }
  return sum_lanes(lanes);
}

void scores_f32_avx512vnni(const float* q, size_t head_dim, const float* keys, float multiplier,
                           size_t n, float* scores) {
  for (size_t j = 0; j < n; ++j, keys += head_dim) {
    __m512 lanes = _mm512_setzero_ps();
    for (size_t d = 0; d < head_dim; d += kLanes) {
      const __mmask16 mask = lanes_of(head_dim - d);
      const __m512 product =
          _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, q + d), _mm512_maskz_loadu_ps(mask, keys + d));
      lanes = _mm512_add_ps(lanes, product);
    }
    scores[j] = sum_lanes(lanes) * multiplier;
  }
}

void weighted_sum_f32_avx512vnni(const float* weights, const float* values, size_t n,
                                 size_t head_dim, float rescale, float* out) {
  for (size_t d = 0; d < head_dim; d += kLanes) {
    const __mmask16 mask = lanes_of(head_dim - d);
    __m512 sum = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, out + d), _mm512_set1_ps(rescale));
    for (size_t j = 0; j < n; ++j) {
      const __m512 value = _mm512_maskz_loadu_ps(mask, values + j * head_dim + d);
      sum = _mm512_add_ps(sum, _mm512_mul_ps(_mm512_set1_ps(weights[j]), value));
    }
    _mm512_mask_storeu_ps(out + d, mask, sum);
  }
}

void override_avx512vnni(Kernels* table, uint32_t isa_mask) {
  // Products of integers depend on the core; all the others are listed, so that none is forgotten.
  fill_linear_avx512vnni(table, isa_mask);
  *table = {
      .quantize_row = quantize_row_avx512vnni,
      .quantize_values = quantize_values_avx512vnni,
      .products = table->products,
      .rms_norm = rms_norm_avx512vnni,
      .rope = rope_avx512vnni,
      .silu_mul = silu_mul_avx512vnni,
      .add_scaled = add_scaled_avx512vnni,
      .scores_q8 = scores_q8_avx512vnni,
      .scores_f32 = scores_f32_avx512vnni,
      .exp_sum = exp_sum_avx512vnni,
      .weighted_sum_q8 = weighted_sum_q8_avx512vnni,
      .weighted_sum_f32 = weighted_sum_f32_avx512vnni,
      .weighted_sum_q4 = weighted_sum_q4_avx512vnni,
      .variants = table->variants,
      .states = table->states,
  };
  fill_variants_avx512vnni(table);
  table->products.of[place_of(format::NumberFormat::kF32)].floats = matmul_f32_f32_avx512vnni;
  table->products.of[place_of(format::NumberFormat::kF16)].floats = matmul_f16_f32_avx512vnni;
  table->products.of[place_of(format::NumberFormat::kBf16)].floats = matmul_bf16_f32_avx512vnni;
}

}  // namespace cria
