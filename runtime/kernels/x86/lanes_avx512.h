// Registers of sixteen lanes, parts of them, and many of them reduced together. In an anonymous
// namespace, as what files of several ISAs include may have no vague linkage
// (runtime/kernels/overrides.h).
#pragma once

#if defined(__AVX512F__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace cria {
namespace {

constexpr size_t kLanes = 16;

// Lanes of n elements that are still to be done, 16 at most.
inline __mmask16 lanes_of(size_t n) {
  return static_cast<__mmask16>(n < kLanes ? (1u << n) - 1 : 0xffff);
}

inline __mmask64 bytes_of(size_t n) { return n < 64 ? (uint64_t{1} << n) - 1 : ~uint64_t{0}; }

// What reductions merge lanes with.
inline __m512i add_lanes(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
inline __m512i larger_lanes(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }

// Interleaves and merges, so that in each quarter lane i has that quarter of v[i] as one.
template <class Merge>
[[gnu::always_inline]] inline __m512i merge_quarters(const __m512i* v, Merge merge) {
  const __m512i ab = merge(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i cd = merge(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  return merge(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

// Merges the halves' quarters of eight vectors given as two merge_quarters: quarters come out as
// low half of 0..3, high half of 0..3, low half of 4..7, high half of 4..7.
template <class Merge>
[[gnu::always_inline]] inline __m512i merge_halves(__m512i first4, __m512i last4, Merge merge) {
  return merge(_mm512_shuffle_i32x4(first4, last4, _MM_SHUFFLE(2, 0, 2, 0)),
               _mm512_shuffle_i32x4(first4, last4, _MM_SHUFFLE(3, 1, 3, 1)));
}

}  // namespace
}  // namespace cria

#endif  // __AVX512F__
