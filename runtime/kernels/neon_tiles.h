// The frame that the integer products of NEON and dotprod share: which part of a tile meets which
// rows, and the float sums of the contract. An ISA supplies Dots, the integer part:
//
//   template <Planes kPlanes, size_t kQuarters, size_t kRows>
//   static void group(const uint8_t* codes, const int8_t* const (&x)[kRows],
//                     const int32_t (&sums)[kRows], int32x4_t (&dots)[kRows][kQuarters]);
//
// the exact dot products of one group of 32 inputs: of 4 * kQuarters rows of W, whose bytes begin
// at codes in lines 64 bytes apart, with kRows rows of 32 activations that sum to sums.
#pragma once

#if defined(__ARM_NEON)

#include <arm_neon.h>

#include "runtime/kernels/neon_math.h"

namespace cria {

inline constexpr size_t kQuarterRows = 4;  // rows of W in a vector: a quarter of a tile
inline constexpr size_t kQuarterBytes = kLineBytes / 4;
inline constexpr size_t kTileQuarters = kTileRows / kQuarterRows;
inline constexpr int32_t kNibbleZero = 8;  // stored nibble of code 0

enum class Planes { kInt4, kInt8 };

// Lines of one group of 32 inputs, and their bytes.
template <Planes kPlanes>
inline constexpr size_t kGroupBytes =
    kPlanes == Planes::kInt4 ? kInt4BlockBytes : kTileRows* kActivationGroup;

// One product: the arguments of the kernel and what follows from them.
struct TileCall {
  const MatrixShape& shape;
  QuantizedRows x;
  float* y;
  size_t y_stride;
  size_t cols;
  size_t n_groups;
  size_t scale_shift;  // log2 of the groups of activations that share an int4 scale
};

static inline TileCall tile_call(const MatrixShape& shape, const QuantizedRows& x, float* y,
                                 size_t y_stride) {
  const size_t cols = padded_cols(shape);
  const bool is_int4 = shape.number_format == format::NumberFormat::kInt4;
  const unsigned sharing = is_int4 ? shape.group_size / unsigned{kActivationGroup} : 1u;
  return {shape,
          x,
          y,
          y_stride,
          cols,
          cols / kActivationGroup,
          static_cast<size_t>(__builtin_ctz(sharing))};
}

// Part of one tile: codes and scales of its first row, which is row first_row of the matrix.
struct TilePart {
  const uint8_t* codes;
  const uint8_t* scales;
  size_t first_row;
};

static inline TilePart quarter_of(const TilePart& tile, size_t quarter, size_t scale_bytes) {
  return {tile.codes + quarter * kQuarterBytes, tile.scales + quarter * kQuarterRows * scale_bytes,
          tile.first_row + quarter * kQuarterRows};
}

static inline float32x4_t load_bf16(const uint8_t* p) {
  const uint16x4_t halves = vreinterpret_u16_u8(vld1_u8(p));
  return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(halves), 16));
}

static inline float32x4_t load_f32x4(const uint8_t* p) { return vreinterpretq_f32_u8(vld1q_u8(p)); }

// Scales of four rows of W for the inputs of one group of activations.
template <Planes kPlanes>
static inline float32x4_t load_scales(const TileCall& call, const TilePart& w, size_t group,
                                      size_t quarter) {
  if constexpr (kPlanes == Planes::kInt8) {
    return load_f32x4(w.scales + quarter * kQuarterRows * sizeof(float));
  } else {
    const size_t place = (group >> call.scale_shift) * kTileRows;
    return load_bf16(w.scales + (place + quarter * kQuarterRows) * sizeof(uint16_t));
  }
}

// Writes four rows of y that begin at row, but none past the matrix.
static inline void store_rows(const TileCall& call, size_t i, size_t row, float32x4_t values) {
  float* y = call.y + i * call.y_stride + row;
  if (row + kQuarterRows <= call.shape.rows) {
    vst1q_f32(y, values);
  } else if (row < call.shape.rows) {
    float four[kQuarterRows];
    vst1q_f32(four, values);
    std::memcpy(y, four, (call.shape.rows - row) * sizeof(float));
  }
}

// 4 * kQuarters rows of W with rows i ... i + kRows - 1 of x.
template <class Dots, Planes kPlanes, size_t kQuarters, size_t kRows>
static void multiply_part(const TileCall& call, const TilePart& w, size_t i) {
  float32x4_t acc[kRows][kQuarters];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t q = 0; q < kQuarters; ++q) acc[r][q] = vdupq_n_f32(0.0f);
  }
  for (size_t g = 0; g < call.n_groups; ++g) {
    const int8_t* x[kRows];
    int32_t sums[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      x[r] = call.x.codes + (i + r) * call.cols + g * kActivationGroup;
      sums[r] = call.x.sums[(i + r) * call.n_groups + g];
    }
    int32x4_t dots[kRows][kQuarters];
    Dots::template group<kPlanes, kQuarters, kRows>(w.codes + g * kGroupBytes<kPlanes>, x, sums,
                                                    dots);
    for (size_t q = 0; q < kQuarters; ++q) {
      const float32x4_t w_scale = load_scales<kPlanes>(call, w, g, q);
      for (size_t r = 0; r < kRows; ++r) {
        const float x_scale = call.x.scales[(i + r) * call.n_groups + g];
        const float32x4_t scale = vmulq_n_f32(w_scale, x_scale);
        acc[r][q] = vaddq_f32(acc[r][q], vmulq_f32(vcvtq_f32_s32(dots[r][q]), scale));
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t q = 0; q < kQuarters; ++q) {
      store_rows(call, i + r, w.first_row + q * kQuarterRows, acc[r][q]);
    }
  }
}

// One tile with all rows of x: blocks of kRows rows, the rest in smaller blocks. Two halves of a
// tile keep the sums in registers; a single row takes the whole tile, so that W streams once.
template <class Dots, Planes kPlanes, size_t kRows>
static inline void multiply_rows(const TileCall& call, const TilePart& tile, size_t i) {
  constexpr size_t kScaleBytes = kPlanes == Planes::kInt4 ? sizeof(uint16_t) : sizeof(float);
  if constexpr (kRows == 1) {
    for (; i < call.x.n_rows; ++i) {
      multiply_part<Dots, kPlanes, kTileQuarters, 1>(call, tile, i);
    }
  } else {
    for (; i + kRows <= call.x.n_rows; i += kRows) {
      for (size_t quarter = 0; quarter < kTileQuarters; quarter += 2) {
        multiply_part<Dots, kPlanes, 2, kRows>(call, quarter_of(tile, quarter, kScaleBytes), i);
      }
    }
    multiply_rows<Dots, kPlanes, kRows / 2>(call, tile, i);
  }
}

template <class Dots, Planes kPlanes>
static void multiply_tiles(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                           size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                           size_t y_stride) {
  const TileCall call = tile_call(shape, x, y, y_stride);
  const auto code_bytes = static_cast<size_t>(tile_code_bytes(shape));
  const auto scale_bytes = static_cast<size_t>(tile_scale_bytes(shape));
  for (size_t tile = first_tile; tile < last_tile; ++tile) {
    const TilePart w = {codes + tile * code_bytes, scales + tile * scale_bytes, tile * kTileRows};
    multiply_rows<Dots, kPlanes, kNeonBlockRows>(call, w, 0);
  }
}

}  // namespace cria

#endif  // __ARM_NEON
