// Integer matrix products for Advanced SIMD without dot products: Armv7, Cortex-A53, Cortex-A72.
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/arm/neon.h"
#include "runtime/kernels/overrides.h"

#if !defined(__ARM_NEON)
#error "Build this file for Advanced SIMD (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include "runtime/kernels/arm/neon_tiles.h"

namespace cria {
namespace {

// One vector of W: two rows in each half.
struct Products {
  int16x8_t low;   // rows 0 and 1, four products each
  int16x8_t high;  // rows 2 and 3
};

void add_products(Products& sum, int8x16_t w, int8x16_t x) {
  sum.low = vmlal_s8(sum.low, vget_low_s8(w), vget_low_s8(x));
  sum.high = vmlal_s8(sum.high, vget_high_s8(w), vget_high_s8(x));
}

// Both halves of a group of kRows rows of activations.
template <size_t kRows>
struct Activations {
  int8x16_t low[kRows];
  int8x16_t high[kRows];
};

// 16 activations in a register of which the compiler knows nothing: it would load the four bytes of
// each lane by themselves, which takes more instructions than repeating the lane.
inline int8x16_t load_half(const int8_t* x) {
  int8x16_t half = vld1q_s8(x);
  asm("" : "+w"(half));
  return half;
}

template <size_t kRows>
[[gnu::always_inline]] inline Activations<kRows> load_group(const int8_t* const (&x)[kRows]) {
  Activations<kRows> group;
  for (size_t r = 0; r < kRows; ++r) {
    group.low[r] = load_half(x[r]);
    group.high[r] = load_half(x[r] + kActivationGroup / 2);
  }
  return group;
}

// Line kLine of a group of int4: inputs 4 * kLine ... and 4 * (kLine + 4) ...
// Inlined wherever it stands: its sums live in registers. Nibbles of int4 are taken as 0 ... 15. A
// lane of 16 bits sums 8 products of a group: <= 8 * 15 * 127, or 8 * 32 * 127 of int4nl.
static_assert(8 * kInt4NlLargest * 127 < 1 << 15);
template <Codes kCodes, size_t kLine, size_t kQuarters, size_t kRows>
[[gnu::always_inline]] inline void add_line_q4(const uint8_t* codes, const Activations<kRows>& x,
                                               Products (&sums)[kRows][kQuarters]) {
  int8x16_t x_low[kRows];
  int8x16_t x_high[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    x_low[r] = repeat_quad<kLine>(x.low[r]);
    x_high[r] = repeat_quad<kLine>(x.high[r]);
  }
  for (size_t q = 0; q < kQuarters; ++q) {
    const uint8x16_t packed = vld1q_u8(codes + kLine * kLineBytes + q * kQuarterBytes);
    const int8x16_t low = factors_of<kCodes>(vandq_u8(packed, vdupq_n_u8(0x0f)));
    const int8x16_t high = factors_of<kCodes>(vshrq_n_u8(packed, 4));
    for (size_t r = 0; r < kRows; ++r) {
      add_products(sums[r][q], low, x_low[r]);
      add_products(sums[r][q], high, x_high[r]);
    }
  }
}

// Lines 2 * kPair and 2 * kPair + 1 of a group of int8. Two products of bytes fit 16 bits, as
// 2 * 128 * 127 < 2^15; pairs of such sums go to the four 32-bit lanes of low and high.
template <size_t kPair, size_t kQuarters, size_t kRows>
[[gnu::always_inline]] inline void add_lines_q8(const uint8_t* codes, const Activations<kRows>& x,
                                                int32x4_t (&low)[kRows][kQuarters],
                                                int32x4_t (&high)[kRows][kQuarters]) {
  constexpr int kQuad = kPair % 2 * 2;
  const uint8_t* line = codes + 2 * kPair * kLineBytes;
  int8x16_t x_even[kRows];
  int8x16_t x_odd[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    const int8x16_t half = kPair < 2 ? x.low[r] : x.high[r];
    x_even[r] = repeat_quad<kQuad>(half);
    x_odd[r] = repeat_quad<kQuad + 1>(half);
  }
  for (size_t q = 0; q < kQuarters; ++q) {
    const int8x16_t even = vreinterpretq_s8_u8(vld1q_u8(line + q * kQuarterBytes));
    const int8x16_t odd = vreinterpretq_s8_u8(vld1q_u8(line + kLineBytes + q * kQuarterBytes));
    for (size_t r = 0; r < kRows; ++r) {
      Products sum = {vmull_s8(vget_low_s8(even), vget_low_s8(x_even[r])),
                      vmull_s8(vget_high_s8(even), vget_high_s8(x_even[r]))};
      add_products(sum, odd, x_odd[r]);
      if constexpr (kPair == 0) {
        low[r][q] = vpaddlq_s16(sum.low);
        high[r][q] = vpaddlq_s16(sum.high);
      } else {
        low[r][q] = vpadalq_s16(low[r][q], sum.low);
        high[r][q] = vpadalq_s16(high[r][q], sum.high);
      }
    }
  }
}

// Lines kLine and kLine + 4 of a group of int4 codes, or values, as bytes: sums as above.
template <size_t kLine, size_t kQuarters, size_t kRows>
[[gnu::always_inline]] inline void add_lines_unpacked(const uint8_t* codes,
                                                      const Activations<kRows>& x,
                                                      Products (&sums)[kRows][kQuarters]) {
  const uint8_t* line = codes + kLine * kLineBytes;
  for (size_t r = 0; r < kRows; ++r) {
    const int8x16_t x_low = repeat_quad<kLine>(x.low[r]);
    const int8x16_t x_high = repeat_quad<kLine>(x.high[r]);
    for (size_t q = 0; q < kQuarters; ++q) {
      const uint8_t* low = line + q * kQuarterBytes;
      add_products(sums[r][q], vreinterpretq_s8_u8(vld1q_u8(low)), x_low);
      add_products(sums[r][q], vreinterpretq_s8_u8(vld1q_u8(low + kGroupBytes / 2)), x_high);
    }
  }
}

// The dot products of four rows out of the sums of their products, on top of start. Sums of two
// lanes of int4 are <= 30480: still 16 bits; those of int4nl are not.
template <Codes kCodes>
int32x4_t finish_q4(const Products& sum, int32_t start) {
  if constexpr (kCodes == Codes::kNlNibbles || kCodes == Codes::kNlUnpacked) {
    return add_pairs_s32(vpaddlq_s16(sum.low), vpaddlq_s16(sum.high));
  } else {
    return vpadalq_s16(vdupq_n_s32(start), add_pairs_s16(sum.low, sum.high));
  }
}

// Nibbles of int4 are 8 too large, which start makes good.
template <Codes kCodes, size_t kQuarters, size_t kRows>
[[gnu::always_inline]] inline void group_q4(const uint8_t* codes, const int8_t* const (&x)[kRows],
                                            const int32_t (&x_sums)[kRows],
                                            int32x4_t (&dots)[kRows][kQuarters]) {
  const Activations<kRows> group = load_group(x);
  Products sums[kRows][kQuarters];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t q = 0; q < kQuarters; ++q) sums[r][q] = {vdupq_n_s16(0), vdupq_n_s16(0)};
  }
  if constexpr (are_packed(kCodes)) {
    add_line_q4<kCodes, 0, kQuarters>(codes, group, sums);
    add_line_q4<kCodes, 1, kQuarters>(codes, group, sums);
    add_line_q4<kCodes, 2, kQuarters>(codes, group, sums);
    add_line_q4<kCodes, 3, kQuarters>(codes, group, sums);
  } else {
    add_lines_unpacked<0, kQuarters>(codes, group, sums);
    add_lines_unpacked<1, kQuarters>(codes, group, sums);
    add_lines_unpacked<2, kQuarters>(codes, group, sums);
    add_lines_unpacked<3, kQuarters>(codes, group, sums);
  }
  for (size_t r = 0; r < kRows; ++r) {
    const int32_t start = kCodes == Codes::kNibbles ? -kNibbleZero * x_sums[r] : 0;
    for (size_t q = 0; q < kQuarters; ++q) dots[r][q] = finish_q4<kCodes>(sums[r][q], start);
  }
}

template <size_t kQuarters, size_t kRows>
[[gnu::always_inline]] inline void group_q8(const uint8_t* codes, const int8_t* const (&x)[kRows],
                                            int32x4_t (&dots)[kRows][kQuarters]) {
  const Activations<kRows> group = load_group(x);
  int32x4_t high[kRows][kQuarters];
  add_lines_q8<0, kQuarters>(codes, group, dots, high);
  add_lines_q8<1, kQuarters>(codes, group, dots, high);
  add_lines_q8<2, kQuarters>(codes, group, dots, high);
  add_lines_q8<3, kQuarters>(codes, group, dots, high);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t q = 0; q < kQuarters; ++q) dots[r][q] = add_pairs_s32(dots[r][q], high[r][q]);
  }
}

// Line kLine of a group of bits at a place: codes of the even quad, and of the odd one in place. A
// lane of 16 bits sums 4 products, at most 4 * 12 * 127.
template <size_t kBits, size_t kLine, size_t kQuarters>
[[gnu::always_inline]] inline void add_line_bits(const uint8_t* codes, int8x16_t down,
                                                 const Activations<1>& x,
                                                 Products (&even)[kQuarters],
                                                 Products (&odd)[kQuarters]) {
  constexpr uint8_t kMask = (1 << kBits) - 1;
  const int8x16_t x_low = repeat_quad<kLine>(x.low[0]);
  const int8x16_t x_high = repeat_quad<kLine>(x.high[0]);
  for (size_t q = 0; q < kQuarters; ++q) {
    const uint8x16_t line =
        vshlq_u8(vld1q_u8(codes + kLine * kLineBytes + q * kQuarterBytes), down);
    add_products(even[q], vreinterpretq_s8_u8(vandq_u8(line, vdupq_n_u8(kMask))), x_low);
    add_products(odd[q], vreinterpretq_s8_u8(vandq_u8(line, vdupq_n_u8(kMask << kBits))), x_high);
  }
}

// Both sums by one factor: those of odd quads are 2^kBits times as large.
template <size_t kBits>
inline int16x8_t join_bits(int16x8_t even, int16x8_t odd) {
  const int16x8_t both = vsraq_n_s16(even, odd, kBits);
  return kBits == 1 ? vaddq_s16(both, both) : both;  // a bit counts twice
}

struct NeonDots {
  // Sums of 16 bits take twice the registers, so more rows at once would only move them to memory.
  static constexpr size_t kBlockRows = 1;

  // Two quarters at a time: four would move sums to memory.
  template <size_t kBits, size_t kQuarters>
  static void bit_group(const uint8_t* codes, size_t place, const int8_t* x, int32_t sum,
                        int32x4_t (&dots)[kQuarters]) {
    constexpr size_t kAtOnce = 2;
    static_assert(kQuarters % kAtOnce == 0);
    const int8_t* const rows[] = {x};
    const Activations<1> group = load_group(rows);
    const int8x16_t down = vdupq_n_s8(static_cast<int8_t>(-static_cast<int>(place * 2 * kBits)));
    for (size_t first = 0; first < kQuarters; first += kAtOnce, codes += kAtOnce * kQuarterBytes) {
      Products even[kAtOnce];
      Products odd[kAtOnce];
      for (size_t q = 0; q < kAtOnce; ++q) {
        even[q] = odd[q] = {vdupq_n_s16(0), vdupq_n_s16(0)};
      }
      add_line_bits<kBits, 0>(codes, down, group, even, odd);
      add_line_bits<kBits, 1>(codes, down, group, even, odd);
      add_line_bits<kBits, 2>(codes, down, group, even, odd);
      add_line_bits<kBits, 3>(codes, down, group, even, odd);
      for (size_t q = 0; q < kAtOnce; ++q) {
        const Products both = {join_bits<kBits>(even[q].low, odd[q].low),
                               join_bits<kBits>(even[q].high, odd[q].high)};
        dots[first + q] = vpadalq_s16(vdupq_n_s32(-sum), add_pairs_s16(both.low, both.high));
      }
    }
  }

  template <Codes kCodes, size_t kQuarters, size_t kRows>
  static void group(const uint8_t* codes, const int8_t* const (&x)[kRows],
                    const int32_t (&sums)[kRows], int32x4_t (&dots)[kRows][kQuarters]) {
    if constexpr (are_int8(kCodes)) {
      group_q8<kQuarters>(codes, x, dots);
    } else {
      group_q4<kCodes, kQuarters>(codes, x, sums, dots);
    }
  }
};

template <Codes kCodes>
struct NeonProduct {
  static constexpr MatmulQ8 multiply = multiply_tiles<NeonDots, kCodes>;
};

}  // namespace

void override_neon(Kernels* table, uint32_t /*isa_mask*/) {
  *table = {
      .quantize_row = quantize_row_neon,
      .quantize_values = quantize_values_neon,
      .products = table->products,
      .rms_norm = rms_norm_neon,
      .rope = rope_neon,
      .silu_mul = silu_mul_neon,
      .add_scaled = add_scaled_neon,
      .scores_q8 = scores_q8_neon,
      .scores_f32 = scores_f32_neon,
      .exp_sum = exp_sum_neon,
      .weighted_sum_q8 = weighted_sum_q8_neon,
      .weighted_sum_f32 = weighted_sum_f32_neon,
      .weighted_sum_q4 = weighted_sum_q4_neon,
      .variants = table->variants,
      .states = table->states,
  };
  fill_variants_neon(table);
  fill_products<NeonProduct>(table);
  table->products.of[place_of(format::NumberFormat::kF32)].floats = matmul_f32_f32_neon;
  table->products.of[place_of(format::NumberFormat::kF16)].floats = matmul_f16_f32_neon;
  table->products.of[place_of(format::NumberFormat::kBf16)].floats = matmul_bf16_f32_neon;
}

}  // namespace cria
