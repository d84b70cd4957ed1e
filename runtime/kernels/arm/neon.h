// The Arm kernels that the table's overrides choose from, one for each contract of
// runtime/kernels/kernels.h. Those named neon need only Advanced SIMD and are compiled for Armv7
// and AArch64 alike; dotprod and i8mm are the AArch64 extensions of those names.
//
// Armv7's Advanced SIMD takes subnormal floats for zeros; there the bits are the scalar
// reference's as long as no operand and no result is subnormal (docs/numerics.md).
#pragma once

#include "runtime/kernels/kernels.h"

namespace cria {

void matmul_f32_f32_neon(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                         size_t last_tile, const float* x, size_t n_rows, float* y,
                         size_t y_stride);
void matmul_f16_f32_neon(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                         size_t last_tile, const float* x, size_t n_rows, float* y,
                         size_t y_stride);
void matmul_bf16_f32_neon(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                          size_t last_tile, const float* x, size_t n_rows, float* y,
                          size_t y_stride);
void quantize_row_neon(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                       float* scales, int32_t* sums);
void quantize_values_neon(const float* x, size_t n, uint8_t* codes, uint16_t* scales);
void rms_norm_neon(const float* x, const float* weight, size_t n, float epsilon, float* y);
void rope_neon(float* x, size_t n_heads, size_t head_dim, const float* cos, const float* sin);
void silu_mul_neon(float* gate, const float* up, size_t n);
void add_scaled_neon(float* x, const float* y, float multiplier, size_t n);
void scores_q8_neon(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                    const float* key_scales, float multiplier, size_t n, float* scores,
                    size_t stride);
void scores_q8_dotprod(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                       const float* key_scales, float multiplier, size_t n, float* scores,
                       size_t stride);
void scores_f32_neon(const float* q, size_t head_dim, const float* keys, float multiplier, size_t n,
                     float* scores);
float exp_sum_neon(float* scores, size_t n, float max);
void weighted_sum_q8_neon(const WeightRows& w, const int8_t* values, const float* value_scales,
                          size_t n, size_t head_dim, float* out);
void weighted_sum_f32_neon(const float* weights, const float* values, size_t n, size_t head_dim,
                           float rescale, float* out);
void weighted_sum_q4_neon(const WeightRows& w, const uint8_t* values, const uint16_t* value_scales,
                          size_t n, size_t head_dim, float* out);

}  // namespace cria
