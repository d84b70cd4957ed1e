// Attention scores for Cortex-M cores with the DSP extension. Contracts are in
// runtime/kernels/kernels.h.
#include "runtime/kernels/mcu/dsp.h"
#include "runtime/kernels/query_loops.h"

#if !defined(__ARM_FEATURE_DSP) || !defined(__ARM_FEATURE_SIMD32)
#error "Build this file for a core with the DSP extension (cmake/KernelFlags.cmake)."
#endif

namespace cria {
namespace {

// Dot product of n <= 32 bytes.
int32_t dot_bytes(const int8_t* a, const int8_t* b, size_t n) {
  int32_t sum = 0;
  size_t i = 0;
  for (; i + kWordBytes <= n; i += kWordBytes) {
    sum = add_bytes(load_word(a + i), widen(load_word(b + i)), sum);
  }
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void scores_of_query(const int8_t* q_codes, const float* q_scales, size_t head_dim,
                     const int8_t* keys, const float* key_scales, float multiplier, size_t n,
                     float* scores) {
  for (size_t j = 0; j < n; ++j, keys += head_dim) {
    float sum = 0.0f;
    for (size_t begin = 0; begin < head_dim; begin += kActivationGroup) {
      const size_t rest = head_dim - begin;
      const size_t count = rest < kActivationGroup ? rest : kActivationGroup;
      const int32_t dot = dot_bytes(q_codes + begin, keys + begin, count);
      sum += static_cast<float>(dot) * q_scales[begin / kActivationGroup];
    }
    scores[j] = (sum * key_scales[j]) * multiplier;
  }
}

}  // namespace

void scores_q8_dsp(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                   const float* key_scales, float multiplier, size_t n, float* scores,
                   size_t stride) {
  scores_by_query<scores_of_query>(q, head_dim, keys, key_scales, multiplier, n, scores, stride);
}

}  // namespace cria
