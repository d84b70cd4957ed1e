// Attention scores over the int8 cache for processors with SSE4.1, and the table of the ISA.
// Contracts are in runtime/kernels/kernels.h; blocks of queries go through score_blocks.h.
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/score_blocks.h"

#if !defined(__SSE4_1__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/lanes_sse4_1.h"

namespace cria {
namespace {

constexpr size_t kKeys = 4;  // keys whose dot products share a register
constexpr size_t kHalf = kActivationGroup / 2;

// A group of 32 codes.
struct Codes {
  __m128i low;
  __m128i high;
};

// The first min(n, 32) codes, zeros after.
Codes load_codes(const int8_t* p, size_t n) {
  int8_t part[kActivationGroup] = {};
  if (n < kActivationGroup) {
    for (size_t i = 0; i < n; ++i) part[i] = p[i];
    p = part;
  }
  return {FourLanes::load(p), FourLanes::load(p + kHalf)};
}

// Four partial sums of the products of 16 codes, |q| times the key with q's sign.
__m128i dot_half(__m128i q, __m128i key) {
  const __m128i pairs = _mm_maddubs_epi16(_mm_abs_epi8(q), _mm_sign_epi8(key, q));
  return _mm_madd_epi16(pairs, _mm_set1_epi16(1));
}

// Dot products of a group of q with 4 keys; key j's codes begin at keys + min(j, n - 1) * stride.
__m128i dot_keys(const Codes& q, const int8_t* keys, size_t stride, size_t n, size_t n_codes) {
  __m128i dots[kKeys];
  for (size_t j = 0; j < kKeys; ++j) {
    const Codes key = load_codes(keys + (j < n ? j : n - 1) * stride, n_codes);
    dots[j] = _mm_add_epi32(dot_half(q.low, key.low), dot_half(q.high, key.high));
  }
  return _mm_hadd_epi32(_mm_hadd_epi32(dots[0], dots[1]), _mm_hadd_epi32(dots[2], dots[3]));
}

void scores_q8(const int8_t* q_codes, const float* q_scales, size_t head_dim, const int8_t* keys,
               const float* key_scales, float multiplier, size_t n, float* scores) {
  for (size_t j = 0; j < n; j += kKeys) {
    const size_t left = n - j;
    __m128 sum = _mm_setzero_ps();
    for (size_t d = 0; d < head_dim; d += kActivationGroup) {
      const size_t n_codes = head_dim - d;
      const Codes q = load_codes(q_codes + d, n_codes);
      const __m128i dots = dot_keys(q, keys + j * head_dim + d, head_dim, left, n_codes);
      const __m128 scale = _mm_set1_ps(q_scales[d / kActivationGroup]);
      sum = _mm_add_ps(sum, _mm_mul_ps(_mm_cvtepi32_ps(dots), scale));
    }
    float part[kKeys];
    _mm_storeu_ps(part, sum);
    const size_t count = left < kKeys ? left : kKeys;
    for (size_t i = 0; i < count; ++i) scores[j + i] = (part[i] * key_scales[j + i]) * multiplier;
  }
}

// There are no products of unsigned with signed bytes that cannot overflow, so codes become words:
// those of even places in one register, those of odd places in another.
struct Part : FourLanes {
  static constexpr size_t kLanes = 4;
  static constexpr size_t kSteps = kActivationGroup / 2;
  static constexpr bool kSplitsQueries = true;

  static Ints even_words(Ints bytes) { return _mm_srai_epi16(_mm_slli_epi16(bytes, 8), 8); }
  static Ints odd_words(Ints bytes) { return _mm_srai_epi16(bytes, 8); }

  static void split_keys(const int8_t* const (&rows)[kLanes], Ints* steps, size_t stride) {
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; ++half) {
      Ints keys[kLanes];
#pragma GCC unroll 4
      for (size_t i = 0; i < kLanes; ++i) keys[i] = load(rows[i] + half * kHalf);
      const Ints a = _mm_unpacklo_epi32(keys[0], keys[1]);
      const Ints b = _mm_unpackhi_epi32(keys[0], keys[1]);
      const Ints c = _mm_unpacklo_epi32(keys[2], keys[3]);
      const Ints d = _mm_unpackhi_epi32(keys[2], keys[3]);
      const Ints quads[] = {_mm_unpacklo_epi64(a, c), _mm_unpackhi_epi64(a, c),
                            _mm_unpacklo_epi64(b, d), _mm_unpackhi_epi64(b, d)};
#pragma GCC unroll 4
      for (size_t i = 0; i < 4; ++i) {
        Ints* const step = steps + (4 * half + i) * stride;
        step[0] = even_words(quads[i]);
        step[kSteps / 2 * stride] = odd_words(quads[i]);
      }
    }
  }
  static void split_query(const int8_t* codes, int8_t* steps) {
    auto* const words = reinterpret_cast<__m128i*>(steps);
    for (size_t half = 0; half < 2; ++half) {
      const Ints quads = load(codes + half * kHalf);
      _mm_storeu_si128(words + half, even_words(quads));
      _mm_storeu_si128(words + 2 + half, odd_words(quads));
    }
  }
  static Ints broadcast(const int8_t* steps, size_t i) {
    int32_t words;
    __builtin_memcpy(&words, steps + 4 * i, sizeof words);
    return _mm_set1_epi32(words);
  }
  static Ints start(const int32_t* /*q_sum*/) { return _mm_setzero_si128(); }
  using FourLanes::add;
  static Ints add(Ints sum, Ints keys, Ints query) {
    return _mm_add_epi32(sum, _mm_madd_epi16(keys, query));
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

void override_sse4_1(Kernels* table, uint32_t /*isa_mask*/) {
  table->scores_q8 = scores_of_block;
  fill_vector_sse4_1(table);
  fill_linear_sse4_1(table);
}

}  // namespace cria
