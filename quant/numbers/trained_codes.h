// Finds the codes of weights that were trained as bit1 or bit2, from their floats. Nothing is
// rounded: other weights have no such codes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/numbers/tile16.h"

namespace cria {

// Rows of a matrix of kBit1 or kBit2: whether a scale of each group, which is an f16, and codes
// give each weight (a zero of either sign is one). Where two scales do, the larger one is taken,
// and of two signs the positive one. A group of zeros has scale 0.
//   weights  [n_rows][cols], finite
//   codes    [n_rows][padded_cols(shape)] as stored, zero bits past cols
//   scales   [n_rows][padded_cols(shape) / group_size] f16 bits
// Codes and scales are unspecified if false.
[[nodiscard]] bool find_exact_bits(const MatrixShape& shape, const float* weights, size_t n_rows,
                                   int8_t* codes, uint16_t* scales);

}  // namespace cria
