// Tiles of layout tile16 as the row-major weights that XNNPACK packs (xnnpack_operator.h).
//
// XNNPACK wants scales that are positive and normal. A group (int4) or row (int8) whose scale is
// not, zero as the converter writes it for weights of zero or anything a damaged file may hold,
// gets codes of zero and the smallest normal scale: its weights are zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/numbers/tile16.h"

namespace cria::xnnpack {

// tile_codes [tile_code_bytes], tile_scales [tile_scale_bytes]; the first n_rows of the 16 rows are
// written, 1 <= n_rows <= 16; pointers aligned as their elements.
void unpack_int4_tile(const MatrixShape& shape, const uint8_t* tile_codes,
                      const uint8_t* tile_scales, size_t n_rows, uint8_t* codes, uint16_t* scales);
void unpack_int8_tile(const MatrixShape& shape, const uint8_t* tile_codes,
                      const uint8_t* tile_scales, size_t n_rows, int8_t* codes, float* scales);
// kF32, kF16 and kBf16.
void unpack_float_tile(const MatrixShape& shape, const uint8_t* tile_codes, size_t n_rows,
                       float* values);

}  // namespace cria::xnnpack
