// The AVX-512 VNNI kernels, one for each contract of runtime/kernels/kernels.h.
#pragma once

#include "runtime/kernels/kernels.h"

namespace cria {

void quantize_row_avx512vnni(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                             float* scales, int32_t* sums);
void quantize_values_avx512vnni(const float* x, size_t n, uint8_t* codes, uint16_t* scales);
// The products of integers, as cores that have what isa_mask says ask for weights best.
void fill_linear_avx512vnni(Kernels* table, uint32_t isa_mask);
void matmul_f32_f32_avx512vnni(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                               size_t last_tile, const float* x, size_t n_rows, float* y,
                               size_t y_stride);
void matmul_f16_f32_avx512vnni(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                               size_t last_tile, const float* x, size_t n_rows, float* y,
                               size_t y_stride);
void matmul_bf16_f32_avx512vnni(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                                size_t last_tile, const float* x, size_t n_rows, float* y,
                                size_t y_stride);
void rms_norm_avx512vnni(const float* x, const float* weight, size_t n, float epsilon, float* y);
void rope_avx512vnni(float* x, size_t n_heads, size_t head_dim, const float* cos, const float* sin);
void silu_mul_avx512vnni(float* gate, const float* up, size_t n);
void add_scaled_avx512vnni(float* x, const float* y, float multiplier, size_t n);
void scores_q8_avx512vnni(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                          const float* key_scales, float multiplier, size_t n, float* scores,
                          size_t stride);
void scores_f32_avx512vnni(const float* q, size_t head_dim, const float* keys, float multiplier,
                           size_t n, float* scores);
float exp_sum_avx512vnni(float* scores, size_t n, float max);
void weighted_sum_q8_avx512vnni(const WeightRows& w, const int8_t* values,
                                const float* value_scales, size_t n, size_t head_dim, float* out);
void weighted_sum_f32_avx512vnni(const float* weights, const float* values, size_t n,
                                 size_t head_dim, float rescale, float* out);
void weighted_sum_q4_avx512vnni(const WeightRows& w, const uint8_t* values,
                                const uint16_t* value_scales, size_t n, size_t head_dim,
                                float* out);

}  // namespace cria
