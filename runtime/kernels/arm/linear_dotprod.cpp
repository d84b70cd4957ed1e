// Integer matrix products for AArch64 cores with dot products (Armv8.2: Cortex-A55, A76 and later).
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/arm/neon.h"
#include "runtime/kernels/overrides.h"

#if !defined(__aarch64__) || !defined(__ARM_FEATURE_DOTPROD)
#error "Build this file with -march=armv8.2-a+dotprod (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include "runtime/kernels/arm/neon_tiles.h"

namespace cria {
namespace {

// Both halves of 32 activations.
struct Activations {
  int8x16_t low;
  int8x16_t high;
};

// Line kLine of a group of int4: inputs 4 * kLine ... and 4 * (kLine + 4) ..., nibbles as 0 ... 15
// or as the values of int4nl.
template <Codes kCodes, int kLine, size_t kQuarters, size_t kRows>
void add_line_q4(const uint8_t* codes, const Activations (&x)[kRows],
                 int32x4_t (&dots)[kRows][kQuarters]) {
  for (size_t q = 0; q < kQuarters; ++q) {
    const uint8x16_t packed = vld1q_u8(codes + kLine * kLineBytes + q * kQuarterBytes);
    const int8x16_t low = factors_of<kCodes>(vandq_u8(packed, vdupq_n_u8(0x0f)));
    const int8x16_t high = factors_of<kCodes>(vshrq_n_u8(packed, 4));
    for (size_t r = 0; r < kRows; ++r) {
      dots[r][q] = vdotq_laneq_s32(dots[r][q], low, x[r].low, kLine);
      dots[r][q] = vdotq_laneq_s32(dots[r][q], high, x[r].high, kLine);
    }
  }
}

// Lines kLine and kLine + 4 of a group of int8.
template <int kLine, size_t kQuarters, size_t kRows>
void add_lines_q8(const uint8_t* codes, const Activations (&x)[kRows],
                  int32x4_t (&dots)[kRows][kQuarters]) {
  constexpr size_t kHalfBytes = 4 * kLineBytes;
  for (size_t q = 0; q < kQuarters; ++q) {
    const uint8_t* line = codes + kLine * kLineBytes + q * kQuarterBytes;
    const int8x16_t low = vreinterpretq_s8_u8(vld1q_u8(line));
    const int8x16_t high = vreinterpretq_s8_u8(vld1q_u8(line + kHalfBytes));
    for (size_t r = 0; r < kRows; ++r) {
      dots[r][q] = vdotq_laneq_s32(dots[r][q], low, x[r].low, kLine);
      dots[r][q] = vdotq_laneq_s32(dots[r][q], high, x[r].high, kLine);
    }
  }
}

// Line kLine of a group of bits at a place: codes of the even quad, and of the odd one in place.
template <size_t kBits, int kLine, size_t kQuarters>
[[gnu::always_inline]] inline void add_line_bits(const uint8_t* codes, int8x16_t down,
                                                 const Activations& x, int32x4_t (&even)[kQuarters],
                                                 int32x4_t (&odd)[kQuarters]) {
  constexpr uint8_t kMask = (1 << kBits) - 1;
  for (size_t q = 0; q < kQuarters; ++q) {
    const uint8x16_t line =
        vshlq_u8(vld1q_u8(codes + kLine * kLineBytes + q * kQuarterBytes), down);
    const uint8x16_t low = vandq_u8(line, vdupq_n_u8(kMask));
    const uint8x16_t high = vandq_u8(line, vdupq_n_u8(kMask << kBits));
    even[q] = vdotq_laneq_s32(even[q], vreinterpretq_s8_u8(low), x.low, kLine);
    odd[q] = vdotq_laneq_s32(odd[q], vreinterpretq_s8_u8(high), x.high, kLine);
  }
}

struct DotprodDots {
  static constexpr size_t kBlockRows = 4;

  template <size_t kBits, size_t kQuarters>
  static void bit_group(const uint8_t* codes, size_t place, const int8_t* x, int32_t sum,
                        int32x4_t (&dots)[kQuarters]) {
    const Activations halves = {vld1q_s8(x), vld1q_s8(x + kActivationGroup / 2)};
    const int8x16_t down = vdupq_n_s8(static_cast<int8_t>(-static_cast<int>(place * 2 * kBits)));
    int32x4_t odd[kQuarters];
    for (size_t q = 0; q < kQuarters; ++q) dots[q] = odd[q] = vdupq_n_s32(0);
    add_line_bits<kBits, 0>(codes, down, halves, dots, odd);
    add_line_bits<kBits, 1>(codes, down, halves, dots, odd);
    add_line_bits<kBits, 2>(codes, down, halves, dots, odd);
    add_line_bits<kBits, 3>(codes, down, halves, dots, odd);
    for (size_t q = 0; q < kQuarters; ++q) {
      // A bit counts twice.
      const int32x4_t both = vsraq_n_s32(dots[q], odd[q], kBits);
      const int32x4_t codes_sum = kBits == 1 ? vaddq_s32(both, both) : both;
      dots[q] = vsubq_s32(codes_sum, vdupq_n_s32(sum));
    }
  }

  template <Codes kCodes, size_t kQuarters, size_t kRows>
  static void group(const uint8_t* codes, const int8_t* const (&x)[kRows],
                    const int32_t (&sums)[kRows], int32x4_t (&dots)[kRows][kQuarters]) {
    Activations halves[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      halves[r] = {vld1q_s8(x[r]), vld1q_s8(x[r] + kActivationGroup / 2)};
      const int32_t start = kCodes == Codes::kNibbles ? -kNibbleZero * sums[r] : 0;
      for (size_t q = 0; q < kQuarters; ++q) dots[r][q] = vdupq_n_s32(start);
    }
    if constexpr (are_packed(kCodes)) {
      add_line_q4<kCodes, 0, kQuarters>(codes, halves, dots);
      add_line_q4<kCodes, 1, kQuarters>(codes, halves, dots);
      add_line_q4<kCodes, 2, kQuarters>(codes, halves, dots);
      add_line_q4<kCodes, 3, kQuarters>(codes, halves, dots);
    } else {
      add_lines_q8<0, kQuarters>(codes, halves, dots);
      add_lines_q8<1, kQuarters>(codes, halves, dots);
      add_lines_q8<2, kQuarters>(codes, halves, dots);
      add_lines_q8<3, kQuarters>(codes, halves, dots);
    }
  }
};

}  // namespace

template <Codes kCodes>
void DotprodProduct<kCodes>::multiply(const MatrixShape& shape, const uint8_t* codes,
                                      const uint8_t* scales, size_t first_tile, size_t last_tile,
                                      const QuantizedRows& x, float* y, size_t y_stride) {
  multiply_tiles<DotprodDots, kCodes>(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
}
template struct DotprodProduct<Codes::kNibbles>;
template struct DotprodProduct<Codes::kNlNibbles>;
template struct DotprodProduct<Codes::kBytes>;
template struct DotprodProduct<Codes::kGroupedBytes>;
template struct DotprodProduct<Codes::kBit1>;
template struct DotprodProduct<Codes::kBit2>;

void override_dotprod(Kernels* table, uint32_t /*isa_mask*/) {
  fill_products<DotprodProduct>(table);
  table->scores_q8 = scores_q8_dotprod;
}

}  // namespace cria
