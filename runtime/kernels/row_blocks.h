// The frame that the integer products of dsp and Helium share: which tile meets which rows of x. An
// ISA supplies Product:
//
//   Product::kBlockRows    rows of x that share what is read of W
//   template <size_t kRows>
//   static void multiply_rows(const ProductCall& call, const uint8_t* codes, const uint8_t* scales,
//                             size_t i, size_t n_rows, float* y, size_t y_stride);
//
// which writes n_rows <= 16 elements of rows i ... i + kRows - 1 of y: the tile whose codes and
// scales these are, times those rows of x. kRows is kBlockRows or 1.
#pragma once

#include "runtime/kernels/kernels.h"

namespace cria {

// The same value, in a register of which the compiler knows nothing; callers say what it would do
// if it did.
template <class T>
static inline T in_register(T value) {
  asm("" : "+r"(value));
  return value;
}

// The arguments of a product and what follows from them.
struct ProductCall {
  const QuantizedRows& x;
  size_t cols;
  size_t n_groups;
  size_t groups_per_scale;
  size_t scale_step;  // bytes of scales that a group of weights has, or 0
};

// The contract of MatmulQ8.
template <class Product>
static inline void multiply_by_blocks(const MatrixShape& shape, const uint8_t* codes,
                                      const uint8_t* scales, size_t first_tile, size_t last_tile,
                                      const QuantizedRows& x, float* y, size_t y_stride) {
  const bool has_groups = has_group_scales(shape.number_format);
  const size_t cols = padded_cols(shape);
  const ProductCall call = {x, cols, cols / kActivationGroup,
                            has_groups ? shape.group_size / kActivationGroup : 1,
                            has_groups ? kTileRows * sizeof(uint16_t) : 0};
  const auto code_bytes = static_cast<size_t>(tile_code_bytes(shape));
  const auto scale_bytes = static_cast<size_t>(tile_scale_bytes(shape));
  for (size_t tile = first_tile; tile < last_tile; ++tile) {
    const uint8_t* tile_codes = codes + tile * code_bytes;
    const uint8_t* tile_scales = scales + tile * scale_bytes;
    const size_t first_row = tile * kTileRows;
    const size_t rest = shape.rows - first_row;
    const size_t n_rows = rest < kTileRows ? rest : kTileRows;
    size_t i = 0;
    for (; i + Product::kBlockRows <= x.n_rows; i += Product::kBlockRows) {
      Product::template multiply_rows<Product::kBlockRows>(call, tile_codes, tile_scales, i, n_rows,
                                                           y + first_row, y_stride);
    }
    for (; i < x.n_rows; ++i) {
      Product::template multiply_rows<1>(call, tile_codes, tile_scales, i, n_rows, y + first_row,
                                         y_stride);
    }
  }
}

}  // namespace cria
