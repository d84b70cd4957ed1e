// Registers of eight lanes as the Parts of tile_kernels.h and score_blocks.h want them, for AVX2
// and AVX-VNNI. In an anonymous namespace, as what files of several ISAs include may have no vague
// linkage (runtime/kernels/overrides.h).
#pragma once

#if defined(__AVX2__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/x86/nl_bytes.h"

namespace cria {
namespace {

struct EightLanes {
  using Ints = __m256i;
  using Floats = __m256;

  static Ints load(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Ints low_nibbles(Ints v) { return _mm256_and_si256(v, _mm256_set1_epi8(0x0f)); }
  static Ints high_nibbles(Ints v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }
  static Ints look_up(Ints nibbles) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(nl_bytes()), nibbles);
  }
  static __m128i count_of(size_t n) { return _mm_cvtsi32_si128(static_cast<int>(n)); }
  static Ints all_bytes(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }
  static Ints and_bytes(Ints v, Ints mask) { return _mm256_and_si256(v, mask); }
  static Ints shift_bits(Ints v, size_t n) { return _mm256_srl_epi16(v, count_of(n)); }
  static Ints all_ints(int32_t x) { return _mm256_set1_epi32(x); }
  // Bytes p[4j..4j + 3] in every lane.
  static Ints broadcast(const int8_t* p, size_t j) {
    int32_t quad;
    __builtin_memcpy(&quad, p + 4 * j, sizeof quad);
    return _mm256_set1_epi32(quad);
  }

  static Floats zero() { return _mm256_setzero_ps(); }
  static Floats load(const float* p) { return _mm256_loadu_ps(p); }
  static Floats load_f32(const uint8_t* p) { return _mm256_castsi256_ps(load(p)); }
  static __m128i load_halves(const uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static Floats load_f16(const uint8_t* p) { return _mm256_cvtph_ps(load_halves(p)); }
  // A value's bits are the upper half of the float's. Quarters go where unpacking by halves wants
  // them.
  static void load_bf16(const uint8_t* p, Floats* first, Floats* second) {
    const Ints quarters = _mm256_permute4x64_epi64(load(p), _MM_SHUFFLE(3, 1, 2, 0));
    const Ints zeros = _mm256_setzero_si256();
    *first = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zeros, quarters));
    *second = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zeros, quarters));
  }
  static Floats all(float x) { return _mm256_set1_ps(x); }
  static Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static void store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
};

}  // namespace
}  // namespace cria

#endif  // __AVX2__
