// Integer matrix products for AArch64 cores with 8-bit matrix multiplication (Armv8.6: Neoverse V1,
// Cortex-X2 and later). One instruction multiplies two rows of W with two rows of x, 8 inputs each.
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/neon.h"
#include "runtime/kernels/overrides.h"

#if !defined(__aarch64__) || !defined(__ARM_FEATURE_MATMUL_INT8)
#error "Build this file with -march=armv8.2-a+dotprod+i8mm (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include "runtime/kernels/neon_tiles.h"

namespace cria {
namespace {

constexpr size_t kPartQuarters = 2;              // half a tile at once
constexpr size_t kPairs = 2 * kPartQuarters;     // pairs of rows of W in it
constexpr size_t kSteps = kActivationGroup / 8;  // instructions that cover a group

// Two rows of x for one group: for each step 8 inputs of the first and 8 of the second, in the
// order of the codes.
struct RowPair {
  int8x16_t step[kSteps];
};

int8x16_t zip_low(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s32(vzip1q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)));
}

int8x16_t zip_high(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s32(vzip2q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)));
}

int8x16_t low_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

int8x16_t high_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

// int8: step s has inputs 8 * s ... 8 * s + 7, those of lines 2 * s and 2 * s + 1.
RowPair load_pair_q8(const int8_t* a, const int8_t* b) {
  const int8x16_t a_low = vld1q_s8(a);
  const int8x16_t a_high = vld1q_s8(a + 16);
  const int8x16_t b_low = vld1q_s8(b);
  const int8x16_t b_high = vld1q_s8(b + 16);
  return {{low_halves(a_low, b_low), high_halves(a_low, b_low), low_halves(a_high, b_high),
           high_halves(a_high, b_high)}};
}

// int4: step s has inputs 4 * s ... and 4 * (s + 4) ..., those of line s.
RowPair load_pair_q4(const int8_t* a, const int8_t* b) {
  const int8x16_t a_low = vld1q_s8(a);
  const int8x16_t a_high = vld1q_s8(a + 16);
  const int8x16_t b_low = vld1q_s8(b);
  const int8x16_t b_high = vld1q_s8(b + 16);
  const int8x16_t a01 = zip_low(a_low, a_high);
  const int8x16_t a23 = zip_high(a_low, a_high);
  const int8x16_t b01 = zip_low(b_low, b_high);
  const int8x16_t b23 = zip_high(b_low, b_high);
  return {
      {low_halves(a01, b01), high_halves(a01, b01), low_halves(a23, b23), high_halves(a23, b23)}};
}

// The 8 inputs of one step of four rows of W: first what the first line or the low nibbles hold.
struct StepWeights {
  int8x16_t first;
  int8x16_t second;
};

template <Planes kPlanes>
StepWeights load_weights(const uint8_t* codes, size_t step) {
  if constexpr (kPlanes == Planes::kInt4) {
    const uint8x16_t packed = vld1q_u8(codes + step * kLineBytes);
    return {vreinterpretq_s8_u8(vandq_u8(packed, vdupq_n_u8(0x0f))),
            vreinterpretq_s8_u8(vshrq_n_u8(packed, 4))};
  } else {
    const uint8_t* line = codes + 2 * step * kLineBytes;
    return {vreinterpretq_s8_u8(vld1q_u8(line)), vreinterpretq_s8_u8(vld1q_u8(line + kLineBytes))};
  }
}

float32x4_t repeat_pair(float a, float b) {
  const float32x2_t pair = vset_lane_f32(b, vdup_n_f32(a), 1);
  return vcombine_f32(pair, pair);
}

int32x4_t repeat_pair(int32_t a, int32_t b) {
  const int32x2_t pair = vset_lane_s32(b, vdup_n_s32(a), 1);
  return vcombine_s32(pair, pair);
}

// Half a tile with kRowPairs pairs of rows of x from row i on. A vector of sums holds two rows of W
// with two of x: (w0, xa), (w0, xb), (w1, xa), (w1, xb).
template <Planes kPlanes, size_t kRowPairs>
void multiply_pairs(const TileCall& call, const TilePart& w, size_t i) {
  const int8_t* x = call.x.codes + i * call.cols;
  const float* x_scales = call.x.scales + i * call.n_groups;
  const int32_t* x_sums = call.x.sums + i * call.n_groups;
  float32x4_t acc[kRowPairs][kPairs];
  for (size_t p = 0; p < kRowPairs; ++p) {
    for (size_t k = 0; k < kPairs; ++k) acc[p][k] = vdupq_n_f32(0.0f);
  }
  for (size_t g = 0; g < call.n_groups; ++g) {
    RowPair pairs[kRowPairs];
    int32x4_t dots[kRowPairs][kPairs];
    for (size_t p = 0; p < kRowPairs; ++p) {
      const int8_t* a = x + 2 * p * call.cols + g * kActivationGroup;
      constexpr bool kIsInt4 = kPlanes == Planes::kInt4;
      pairs[p] = kIsInt4 ? load_pair_q4(a, a + call.cols) : load_pair_q8(a, a + call.cols);
      const int32_t* sums = x_sums + 2 * p * call.n_groups + g;
      const int32x4_t start =
          kIsInt4 ? repeat_pair(-kNibbleZero * sums[0], -kNibbleZero * sums[call.n_groups])
                  : vdupq_n_s32(0);
      for (size_t k = 0; k < kPairs; ++k) dots[p][k] = start;
    }
    const uint8_t* codes = w.codes + g * kGroupBytes<kPlanes>;
    for (size_t step = 0; step < kSteps; ++step) {
      for (size_t q = 0; q < kPartQuarters; ++q) {
        const StepWeights weights = load_weights<kPlanes>(codes + q * kQuarterBytes, step);
        const int8x16_t rows01 = zip_low(weights.first, weights.second);
        const int8x16_t rows23 = zip_high(weights.first, weights.second);
        for (size_t p = 0; p < kRowPairs; ++p) {
          dots[p][2 * q] = vmmlaq_s32(dots[p][2 * q], rows01, pairs[p].step[step]);
          dots[p][2 * q + 1] = vmmlaq_s32(dots[p][2 * q + 1], rows23, pairs[p].step[step]);
        }
      }
    }
    for (size_t q = 0; q < kPartQuarters; ++q) {
      const float32x4_t scales = load_scales<kPlanes>(call, w, g, q);
      const float32x4_t w_scales[2] = {vzip1q_f32(scales, scales), vzip2q_f32(scales, scales)};
      for (size_t p = 0; p < kRowPairs; ++p) {
        const float* row_scale = x_scales + 2 * p * call.n_groups + g;
        const float32x4_t x_scale = repeat_pair(row_scale[0], row_scale[call.n_groups]);
        for (size_t k = 0; k < 2; ++k) {
          const float32x4_t dot = vcvtq_f32_s32(dots[p][2 * q + k]);
          float32x4_t& sum = acc[p][2 * q + k];
          sum = vaddq_f32(sum, vmulq_f32(dot, vmulq_f32(w_scales[k], x_scale)));
        }
      }
    }
  }
  for (size_t p = 0; p < kRowPairs; ++p) {
    for (size_t q = 0; q < kPartQuarters; ++q) {
      const float32x4_t first = acc[p][2 * q];
      const float32x4_t second = acc[p][2 * q + 1];
      const size_t row = w.first_row + q * kQuarterRows;
      store_rows(call, i + 2 * p, row, vuzp1q_f32(first, second));
      store_rows(call, i + 2 * p + 1, row, vuzp2q_f32(first, second));
    }
  }
}

template <Planes kPlanes>
void multiply_even_rows(const TileCall& call, const TilePart& tile, size_t n_rows) {
  constexpr size_t kScaleBytes = kPlanes == Planes::kInt4 ? sizeof(uint16_t) : sizeof(float);
  for (size_t i = 0; i < n_rows;) {
    const bool is_block = i + 4 <= n_rows;
    for (size_t quarter = 0; quarter < kTileQuarters; quarter += kPartQuarters) {
      const TilePart part = quarter_of(tile, quarter, kScaleBytes);
      if (is_block) {
        multiply_pairs<kPlanes, 2>(call, part, i);
      } else {
        multiply_pairs<kPlanes, 1>(call, part, i);
      }
    }
    i += is_block ? 4 : 2;
  }
}

// A last odd row, or the one row of a decode step, has no partner: dot products take it.
template <Planes kPlanes, MatmulQ8 kOneRow>
void multiply(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
              size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
              size_t y_stride) {
  const TileCall call = tile_call(shape, x, y, y_stride);
  const auto code_bytes = static_cast<size_t>(tile_code_bytes(shape));
  const auto scale_bytes = static_cast<size_t>(tile_scale_bytes(shape));
  const size_t n_even = x.n_rows - x.n_rows % 2;
  for (size_t tile = first_tile; tile < last_tile; ++tile) {
    const TilePart w = {codes + tile * code_bytes, scales + tile * scale_bytes, tile * kTileRows};
    multiply_even_rows<kPlanes>(call, w, n_even);
  }
  if (n_even == x.n_rows) return;
  const QuantizedRows last = {x.codes + n_even * call.cols, x.scales + n_even * call.n_groups,
                              x.sums + n_even * call.n_groups, 1};
  kOneRow(shape, codes, scales, first_tile, last_tile, last, y + n_even * y_stride, y_stride);
}

void matmul_q4_q8_i8mm(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                       size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                       size_t y_stride) {
  multiply<Planes::kInt4, matmul_q4_q8_dotprod>(shape, codes, scales, first_tile, last_tile, x, y,
                                                y_stride);
}

void matmul_q8_q8_i8mm(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                       size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                       size_t y_stride) {
  multiply<Planes::kInt8, matmul_q8_q8_dotprod>(shape, codes, scales, first_tile, last_tile, x, y,
                                                y_stride);
}

}  // namespace

void override_i8mm(Kernels* table) {
  table->isa = "i8mm";
  table->matmul_q4_q8 = matmul_q4_q8_i8mm;
  table->matmul_q8_q8 = matmul_q8_q8_i8mm;
}

}  // namespace cria
