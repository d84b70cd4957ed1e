// What the kernels of the DSP extension share: words of four bytes as pairs of 16 bits. The kernel
// that does not stand beside override_dsp is declared here. Everything else is static
// (runtime/kernels/overrides.h says why).
#pragma once

#include "runtime/kernels/kernels.h"

namespace cria {

void scores_q8_dsp(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                   const float* key_scales, float multiplier, size_t n, float* scores,
                   size_t stride);

}  // namespace cria

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32)

#include <arm_acle.h>

#include <cstring>

namespace cria {

inline constexpr size_t kWordBytes = 4;

// A word of bytes as two pairs of 16 bits: bytes 0 and 2, bytes 1 and 3.
struct Pairs {
  int16x2_t even;
  int16x2_t odd;
};

// Any alignment: these cores load words from everywhere.
static inline uint32_t load_word(const void* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// SXTB16 can rotate what it reads, which GCC's intrinsic does not know.
static inline int16x2_t widen_odd(uint32_t bytes) {
  int16x2_t pair;
  asm("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(bytes));
  return pair;
}

static inline Pairs widen(uint32_t bytes) {
  return {__sxtb16(static_cast<int8x4_t>(bytes)), widen_odd(bytes)};
}

// The low halves of two pairs, and their high halves: PKHBT and PKHTB.
static inline int16x2_t low_halves(int16x2_t a, int16x2_t b) {
  return static_cast<int16x2_t>((static_cast<uint32_t>(a) & 0xffff) | static_cast<uint32_t>(b)
                                                                          << 16);
}
static inline int16x2_t high_halves(int16x2_t a, int16x2_t b) {
  return static_cast<int16x2_t>((static_cast<uint32_t>(b) & 0xffff0000) |
                                static_cast<uint32_t>(a) >> 16);
}

static inline int32_t add_bytes(uint32_t word, const Pairs& x, int32_t sum) {
  const Pairs w = widen(word);
  return __smlad(w.odd, x.odd, __smlad(w.even, x.even, sum));
}

}  // namespace cria

#endif  // __ARM_FEATURE_DSP
