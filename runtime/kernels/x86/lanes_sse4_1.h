// Registers of four lanes as the Parts of tile_kernels.h and score_blocks.h want them, for SSE4.1.
// In an anonymous namespace, as what files of several ISAs include may have no vague linkage
// (runtime/kernels/overrides.h).
#pragma once

#if defined(__SSE4_1__)

#include <immintrin.h>

#include <cstdint>

namespace cria {
namespace {

struct FourLanes {
  using Ints = __m128i;
  using Floats = __m128;

  static Ints load(const uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static Ints load(const int8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

  static Floats zero() { return _mm_setzero_ps(); }
  static Floats load(const float* p) { return _mm_loadu_ps(p); }
  static Floats all(float x) { return _mm_set1_ps(x); }
  static Floats to_floats(Ints v) { return _mm_cvtepi32_ps(v); }
  static Floats add(Floats a, Floats b) { return _mm_add_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm_mul_ps(a, b); }
  static void store(float* p, Floats v) { _mm_storeu_ps(p, v); }
};

}  // namespace
}  // namespace cria

#endif  // __SSE4_1__
