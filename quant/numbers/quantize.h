// Turns rows of f32 weights into integer codes and scales, and measures what that costs.
//
// int4: code = round_half_even(w / scale) clamped to -8..7, one bf16 scale a group.
// int4nl: the code of the value of kInt4NlValues next to w / scale, one bf16 scale a group.
// int8: code = round_half_even(w / scale) clamped to -127..127, one f32 scale a row.
// int8g32: the same, one bf16 scale a group.
// Signed scales let the largest weight of an int4 group take -8, the code that has no partner.
// A group (or row) of zeros, or one whose scale would be subnormal, gets scale 0 and codes 0.
// Weights must be finite (the converter refuses others).
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/numbers/tile16.h"

namespace cria {

enum class QuantMethod {
  kRtn,  // round to nearest: the scale that just covers the largest weight
  kMse,  // the scale, of a fixed set around that one, with the least sum of |w| * error^2
};

// Scales smaller than this count as zero: their products with an activation's scale (at least
// 2^-47, see docs/numerics.md) could be subnormal.
inline constexpr float kSmallestScale = 0x1p-64f;

// Which scales a group of int4 may have.
enum class ScaleSigns : uint8_t { kPositive, kBoth };

// Quantizes rows of a matrix whose scales are those of groups, and bf16. A row's result does not
// depend on those beside it.
//   weights  [n_rows][cols]
//   codes    [n_rows][padded_cols(shape)], zero past cols
//   signs    kPositive where the format's scales may not be signed
//   scales   [n_rows][padded_cols(shape) / group_size] bf16 bits
void quantize_groups(const MatrixShape& shape, const float* weights, size_t n_rows,
                     QuantMethod method, ScaleSigns signs, int8_t* codes, uint16_t* scales);
// One row to int8: weights [cols], padded_cols is cols rounded up to 32, codes [padded_cols].
void quantize_row_int8(const float* weights, size_t cols, QuantMethod method, size_t padded_cols,
                       int8_t* codes, float* scale);

// Sums for signal-to-quantization-noise ratio: SQNR in dB = 10 log10(signal / noise).
struct ErrorSums {
  double signal = 0;     // sum of squared weights
  double noise = 0;      // sum of squared differences
  double max_error = 0;  // largest absolute difference
};
// Of one row of a matrix whose scales are those of groups.
void add_error_groups(const MatrixShape& shape, const float* weights, const int8_t* codes,
                      const uint16_t* scales, ErrorSums* sums);
void add_error_int8(const float* weights, size_t cols, const int8_t* codes, float scale,
                    ErrorSums* sums);

}  // namespace cria
