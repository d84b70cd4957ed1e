// Attention scores over the int8 cache for processors with AVX2, and the table of the ISA.
// Contracts are in runtime/kernels/kernels.h; blocks of queries go through score_blocks.h.
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/score_blocks.h"

#if !defined(__AVX2__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/key_quads.h"
#include "runtime/kernels/x86/lanes_avx2.h"

namespace cria {
namespace {

constexpr size_t kKeys = 8;  // keys whose dot products share a register

// The first min(n, 32) bytes, zeros after.
__m256i load_bytes(const int8_t* p, size_t n) {
  if (n >= kActivationGroup) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  int8_t part[kActivationGroup] = {};
  for (size_t i = 0; i < n; ++i) part[i] = p[i];
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(part));
}

// Eight partial sums of the products of 32 codes, |q| times the key with q's sign.
__m256i dot_codes(__m256i q, __m256i key) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(key, q));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// In each half lane i has the sum of that half of v[i].
__m256i add_halves(const __m256i* v) {
  return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

// Dot products of a group of q with 8 keys; key j's codes begin at keys + min(j, n - 1) * stride.
__m256i dot_keys(__m256i q, const int8_t* keys, size_t stride, size_t n, size_t n_codes) {
  __m256i dots[kKeys];
  for (size_t j = 0; j < kKeys; ++j) {
    dots[j] = dot_codes(q, load_bytes(keys + (j < n ? j : n - 1) * stride, n_codes));
  }
  const __m256i first = add_halves(dots);
  const __m256i last = add_halves(dots + 4);
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, last, 0x20),
                          _mm256_permute2x128_si256(first, last, 0x31));
}

void scores_q8(const int8_t* q_codes, const float* q_scales, size_t head_dim, const int8_t* keys,
               const float* key_scales, float multiplier, size_t n, float* scores) {
  for (size_t j = 0; j < n; j += kKeys) {
    const size_t left = n - j;
    __m256 sum = _mm256_setzero_ps();
    for (size_t d = 0; d < head_dim; d += kActivationGroup) {
      const size_t n_codes = head_dim - d;
      const __m256i q = load_bytes(q_codes + d, n_codes);
      const __m256i dots = dot_keys(q, keys + j * head_dim + d, head_dim, left, n_codes);
      const __m256 scale = _mm256_set1_ps(q_scales[d / kActivationGroup]);
      sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_cvtepi32_ps(dots), scale));
    }
    float part[kKeys];
    _mm256_storeu_ps(part, sum);
    const size_t count = left < kKeys ? left : kKeys;
    for (size_t i = 0; i < count; ++i) scores[j + i] = (part[i] * key_scales[j + i]) * multiplier;
  }
}

// There are no products of unsigned with signed bytes that cannot overflow, so codes become words:
// those of even places in one register, those of odd places in another.
struct Part : EightLanes {
  static constexpr size_t kLanes = 8;
  static constexpr size_t kSteps = kActivationGroup / 2;
  static constexpr bool kSplitsQueries = true;

  static Ints even_words(Ints bytes) { return _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8); }
  static Ints odd_words(Ints bytes) { return _mm256_srai_epi16(bytes, 8); }

  static void split_keys(const int8_t* const (&rows)[kLanes], Ints* steps, size_t stride) {
    Ints quads[kSteps / 2];
    transpose_keys(rows, quads);
#pragma GCC unroll 8
    for (size_t i = 0; i < kSteps / 2; ++i) {
      steps[i * stride] = even_words(quads[i]);
      steps[(i + kSteps / 2) * stride] = odd_words(quads[i]);
    }
  }
  static void split_query(const int8_t* codes, int8_t* steps) {
    const Ints quads = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    auto* const halves = reinterpret_cast<__m256i*>(steps);
    _mm256_storeu_si256(halves, even_words(quads));
    _mm256_storeu_si256(halves + 1, odd_words(quads));
  }
  static Ints start(const int32_t* /*q_sum*/) { return _mm256_setzero_si256(); }
  using EightLanes::add;
  static Ints add(Ints sum, Ints keys, Ints query) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(keys, query));
  }
};

void scores_of_block(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                     const float* key_scales, float multiplier, size_t n, float* scores,
                     size_t stride) {
  if (q.n_rows == 1) {
    return scores_q8(q.codes, q.scales, head_dim, keys, key_scales, multiplier, n, scores);
  }
  ScoreBlocks<Part>::scores_q8(q, head_dim, keys, key_scales, multiplier, n, scores, stride);
}

}  // namespace

void override_avx2(Kernels* table, uint32_t /*isa_mask*/) {
  table->scores_q8 = scores_of_block;
  fill_vector_avx2(table);
  fill_linear_avx2(table);
}

}  // namespace cria
