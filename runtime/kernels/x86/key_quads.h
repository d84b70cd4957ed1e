// Keys transposed for registers of eight lanes. Static, as what files of several ISAs include must
// be (runtime/kernels/overrides.h).
#pragma once

#if defined(__AVX2__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace cria {

// The first 32 codes of eight keys: quads[i] has codes 4 * i ... 4 * i + 3, a lane a key.
[[gnu::always_inline]] static inline void transpose_keys(const int8_t* const (&rows)[8],
                                                         __m256i (&quads)[8]) {
#pragma GCC unroll 2
  for (size_t half = 0; half < 2; ++half) {
    __m256i keys[4];  // key i and, in the upper half, key i + 4
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
      const auto* const low = reinterpret_cast<const __m128i*>(rows[i]) + half;
      const auto* const high = reinterpret_cast<const __m128i*>(rows[i + 4]) + half;
      keys[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                        _mm_loadu_si128(high), 1);
    }
    const __m256i a = _mm256_unpacklo_epi32(keys[0], keys[1]);
    const __m256i b = _mm256_unpackhi_epi32(keys[0], keys[1]);
    const __m256i c = _mm256_unpacklo_epi32(keys[2], keys[3]);
    const __m256i d = _mm256_unpackhi_epi32(keys[2], keys[3]);
    quads[4 * half] = _mm256_unpacklo_epi64(a, c);
    quads[4 * half + 1] = _mm256_unpackhi_epi64(a, c);
    quads[4 * half + 2] = _mm256_unpacklo_epi64(b, d);
    quads[4 * half + 3] = _mm256_unpackhi_epi64(b, d);
  }
}

}  // namespace cria

#endif  // __AVX2__
