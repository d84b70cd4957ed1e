// Integer matrix products for Helium. Contracts are in runtime/kernels/kernels.h.
//
// Helium has no dot product by lanes, but one across a vector: 16 products of bytes, added to a
// general register. A gather collects what one row of W has in a group: four words, a line apart.
// GCC 12 takes a gather for a function of only the addresses, which W, unchanged during a call,
// allows.
#include "runtime/kernels/mcu/helium.h"
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/row_blocks.h"

#if !defined(__ARM_FEATURE_MVE) || (__ARM_FEATURE_MVE & 2) == 0
#error "Build this file for Helium with floats (cmake/KernelFlags.cmake)."
#endif

#include <arm_mve.h>

#include "runtime/base/features.h"
#include "runtime/kernels/mcu/helium_math.h"

namespace cria {
namespace {

constexpr size_t kHalfGroup = kActivationGroup / 2;  // bytes of a vector
constexpr size_t kWordBytes = 4;                     // inputs of one row in a line
constexpr int kHalfLines = 4 * kLineBytes;           // from inputs 0 ... 15 to 16 ... 31 of int8
constexpr uint8_t kLowNibble = 0x0f;
constexpr int kNibbleBits = 4;
constexpr int kBf16Shift = 16;
constexpr size_t kQuad = 4;  // rows of W whose sums make a vector
// Rows of x that share what is read of W.
constexpr size_t kBlock = 4;
// Arrays of the stack are reached through in_register: GCC 12 gives vector loads from the stack an
// instruction that computes the address.

// Codes of one row of W in a group: inputs 0 ... 15, 16 ... 31.
struct Row {
  int8x16_t low;
  int8x16_t high;
};

struct Int4 {
  static constexpr size_t kGroupBytes = kInt4BlockBytes;
  // Nibbles are 8 too large.
  static constexpr int32_t kZero = kNibbleZero;

  template <int kRow>
  static Row load(uint32x4_t lines) {
    const uint8x16_t packed =
        vreinterpretq_u8_u32(vldrwq_gather_base_u32(lines, kRow * int{kWordBytes}));
    return {vreinterpretq_s8_u8(vandq_u8(packed, vdupq_n_u8(kLowNibble))),
            vreinterpretq_s8_u8(vshrq_n_u8(packed, kNibbleBits))};
  }
  // bf16 is the upper half of a float.
  static float32x4_t scales(const uint8_t* p, size_t quad) {
    const auto* halves = reinterpret_cast<const uint16_t*>(p);
    return vreinterpretq_f32_u32(vshlq_n_u32(vldrhq_u32(halves + quad * kQuad), kBf16Shift));
  }
};

// The same with a gather more for each half of a row: the values that its codes stand for.
struct Int4Nl : Int4 {
  static constexpr int32_t kZero = 0;

  template <int kRow>
  static Row load(uint32x4_t lines) {
    const Row nibbles = Int4::load<kRow>(lines);
    return {vldrbq_gather_offset_s8(kInt4NlValues, vreinterpretq_u8_s8(nibbles.low)),
            vldrbq_gather_offset_s8(kInt4NlValues, vreinterpretq_u8_s8(nibbles.high))};
  }
};

struct Int8 {
  static constexpr size_t kGroupBytes = kTileRows * kActivationGroup;
  static constexpr int32_t kZero = 0;

  template <int kRow>
  static Row load(uint32x4_t lines) {
    constexpr int kBegin = kRow * int{kWordBytes};
    return {vreinterpretq_s8_u32(vldrwq_gather_base_u32(lines, kBegin)),
            vreinterpretq_s8_u32(vldrwq_gather_base_u32(lines, kBegin + kHalfLines))};
  }
  static float32x4_t scales(const uint8_t* p, size_t quad) {
    return vldrwq_f32(reinterpret_cast<const float*>(p) + quad * kQuad);
  }
};

struct Int8G32 : Int8 {
  static float32x4_t scales(const uint8_t* p, size_t quad) { return Int4::scales(p, quad); }
};

Row load_group(const int8_t* x) { return {vldrbq_s8(x), vldrbq_s8(x + kHalfGroup)}; }

int32_t dot(const Row& w, const Row& x) {
  return vmladavaq_s8(vmladavq_s8(w.low, x.low), w.high, x.high);
}

// What is known of a group of a row of x.
struct GroupOfX {
  const int8_t* codes;
  int32_t excess;  // of the dot products, by codes of W that are stored too large
  float scale;
};

template <class Weights>
GroupOfX group_of_x(const ProductCall& call, size_t row, size_t g) {
  const size_t at = row * call.n_groups + g;
  return {call.x.codes + row * call.cols + g * kActivationGroup,
          Weights::kZero == 0 ? 0 : Weights::kZero * call.x.sums[at], call.x.scales[at]};
}

// acc[0..3] += dots as the contract says.
template <class Weights>
void add_dots(int32x4_t dots, const GroupOfX& x, float32x4_t w_scales, float* acc) {
  if constexpr (Weights::kZero != 0) dots = vsubq_n_s32(dots, x.excess);
  const float32x4_t products = vmulq_f32(vcvtq_f32_s32(dots), vmulq_n_f32(w_scales, x.scale));
  vst1q_f32(acc, vaddq_f32(vld1q_f32(acc), products));
}

// Rows 4 * kIndex ... of a group of W times one row of x, whose codes stay in registers.
template <class Weights, int kIndex>
void add_quad(uint32x4_t lines, const uint8_t* scales, const GroupOfX& x, const Row& codes,
              float* acc) {
  constexpr int kFirst = kIndex * int{kQuad};
  int32x4_t dots = vdupq_n_s32(dot(Weights::template load<kFirst>(lines), codes));
  dots = vsetq_lane_s32(dot(Weights::template load<kFirst + 1>(lines), codes), dots, 1);
  dots = vsetq_lane_s32(dot(Weights::template load<kFirst + 2>(lines), codes), dots, 2);
  dots = vsetq_lane_s32(dot(Weights::template load<kFirst + 3>(lines), codes), dots, 3);
  add_dots<Weights>(dots, x, Weights::scales(scales, kIndex), acc + kFirst);
}

// The same with kBlock rows of x, whose codes are loaded for two rows of W at a time.
template <class Weights, int kIndex>
void add_quad(uint32x4_t lines, const uint8_t* scales, const GroupOfX* x, float* acc) {
  constexpr int kFirst = kIndex * int{kQuad};
  int32_t memory[kBlock * kQuad];
  int32_t* dots = in_register(&memory[0]);
  {
    const Row first = Weights::template load<kFirst>(lines);
    const Row second = Weights::template load<kFirst + 1>(lines);
#pragma GCC unroll 4
    for (size_t r = 0; r < kBlock; ++r) {
      const Row codes = load_group(x[r].codes);
      dots[r * kQuad] = dot(first, codes);
      dots[r * kQuad + 1] = dot(second, codes);
    }
  }
  {
    const Row third = Weights::template load<kFirst + 2>(lines);
    const Row fourth = Weights::template load<kFirst + 3>(lines);
#pragma GCC unroll 4
    for (size_t r = 0; r < kBlock; ++r) {
      const Row codes = load_group(x[r].codes);
      dots[r * kQuad + 2] = dot(third, codes);
      dots[r * kQuad + 3] = dot(fourth, codes);
    }
  }
  const float32x4_t w_scales = Weights::scales(scales, kIndex);
#pragma GCC unroll 4
  for (size_t r = 0; r < kBlock; ++r) {
    add_dots<Weights>(vldrwq_s32(dots + r * kQuad), x[r], w_scales, acc + r * kTileRows + kFirst);
  }
}

// One group of a tile, times row i of x or a block of rows that begins there.
template <class Weights, size_t kRows>
void add_group(const ProductCall& call, uint32x4_t lines, const uint8_t* scales, size_t i, size_t g,
               float* acc) {
  if constexpr (kRows == 1) {
    const GroupOfX x = group_of_x<Weights>(call, i, g);
    const Row codes = load_group(x.codes);
    add_quad<Weights, 0>(lines, scales, x, codes, acc);
    add_quad<Weights, 1>(lines, scales, x, codes, acc);
    add_quad<Weights, 2>(lines, scales, x, codes, acc);
    add_quad<Weights, 3>(lines, scales, x, codes, acc);
  } else {
    GroupOfX memory[kRows];
    for (size_t r = 0; r < kRows; ++r) memory[r] = group_of_x<Weights>(call, i + r, g);
    const GroupOfX* x = in_register(&memory[0]);
    add_quad<Weights, 0>(lines, scales, x, acc);
    add_quad<Weights, 1>(lines, scales, x, acc);
    add_quad<Weights, 2>(lines, scales, x, acc);
    add_quad<Weights, 3>(lines, scales, x, acc);
  }
}

// A tile times kRows rows of x from i on: W is read once, in the order in which it lies.
//   acc [kRows][16]
template <class Weights, size_t kRows>
void multiply_tile(const ProductCall& call, const uint8_t* codes, const uint8_t* scales, size_t i,
                   float* acc) {
  for (size_t k = 0; k < kRows * kTileRows; k += kQuad) vst1q_f32(acc + k, vdupq_n_f32(0.0f));
  const auto begin = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(codes));
  uint32x4_t lines = vaddq_n_u32(vmulq_n_u32(vidupq_n_u32(0, 1), kLineBytes), begin);
  size_t left = call.groups_per_scale;
  for (size_t g = 0; g < call.n_groups; ++g) {
    add_group<Weights, kRows>(call, lines, scales, i, g, acc);
    lines = vaddq_n_u32(lines, Weights::kGroupBytes);
    if (--left == 0) {
      left = call.groups_per_scale;
      scales += call.scale_step;
    }
  }
}

template <class Weights>
struct BlockProduct {
  static constexpr size_t kBlockRows = kBlock;

  template <size_t kRows>
  static void multiply_rows(const ProductCall& call, const uint8_t* codes, const uint8_t* scales,
                            size_t i, size_t n_rows, float* y, size_t y_stride) {
    float memory[kRows * kTileRows];
    float* acc = in_register(&memory[0]);
    multiply_tile<Weights, kRows>(call, codes, scales, i, acc);
    for (size_t r = 0; r < kRows; ++r) {
      float* out = y + (i + r) * y_stride;
      for (size_t row = 0; row < n_rows; row += kQuad) {
        vstrwq_p_f32(out + row, vld1q_f32(acc + r * kTileRows + row), first_lanes(n_rows - row));
      }
    }
  }
};

}  // namespace

void matmul_q4_q8_helium(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                         size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                         size_t y_stride) {
  multiply_by_blocks<BlockProduct<Int4>>(shape, codes, scales, first_tile, last_tile, x, y,
                                         y_stride);
}

void matmul_q4nl_q8_helium(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                           size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                           size_t y_stride) {
  multiply_by_blocks<BlockProduct<Int4Nl>>(shape, codes, scales, first_tile, last_tile, x, y,
                                           y_stride);
}

void matmul_q8_q8_helium(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                         size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                         size_t y_stride) {
  multiply_by_blocks<BlockProduct<Int8>>(shape, codes, scales, first_tile, last_tile, x, y,
                                         y_stride);
}

void matmul_q8g_q8_helium(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                          size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                          size_t y_stride) {
  multiply_by_blocks<BlockProduct<Int8G32>>(shape, codes, scales, first_tile, last_tile, x, y,
                                            y_stride);
}

void override_helium(Kernels* table, uint32_t /*isa_mask*/) {
  table->quantize_row = quantize_row_helium;
  table->products.of[place_of(format::NumberFormat::kInt4)].codes = matmul_q4_q8_helium;
  table->products.of[place_of(format::NumberFormat::kInt4Nl)].codes = matmul_q4nl_q8_helium;
  table->products.of[place_of(format::NumberFormat::kInt8)].codes = matmul_q8_q8_helium;
  table->products.of[place_of(format::NumberFormat::kInt8G32)].codes = matmul_q8g_q8_helium;
  table->rms_norm = rms_norm_helium;
  table->rope = rope_helium;
  table->silu_mul = silu_mul_helium;
  table->add_scaled = add_scaled_helium;
  table->scores_q8 = scores_q8_helium;
  table->scores_f32 = kHasKvF32 ? scores_f32_helium : nullptr;
  table->exp_sum = exp_sum_helium;
  table->weighted_sum_q8 = weighted_sum_q8_helium;
  table->weighted_sum_f32 = kHasKvF32 ? weighted_sum_f32_helium : nullptr;
  table->weighted_sum_q4 = weighted_sum_q4_helium;
}

}  // namespace cria
