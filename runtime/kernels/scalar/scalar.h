// The scalar reference kernels, one for each contract of runtime/kernels/kernels.h.
#pragma once

#include "runtime/kernels/kernels.h"

namespace cria {

void quantize_row_scalar(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                         float* scales, int32_t* sums);
void quantize_values_scalar(const float* x, size_t n, uint8_t* codes, uint16_t* scales);
// Of weights in any format of integers, and of floats.
void matmul_codes_scalar(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                         size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                         size_t y_stride);
void matmul_floats_scalar(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                          size_t last_tile, const float* x, size_t n_rows, float* y,
                          size_t y_stride);
void rms_norm_scalar(const float* x, const float* weight, size_t n, float epsilon, float* y);
void rope_scalar(float* x, size_t n_heads, size_t head_dim, const float* cos, const float* sin);
void silu_mul_scalar(float* gate, const float* up, size_t n);
void add_scaled_scalar(float* x, const float* y, float multiplier, size_t n);
void scores_q8_scalar(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                      const float* key_scales, float multiplier, size_t n, float* scores,
                      size_t stride);
void scores_f32_scalar(const float* q, size_t head_dim, const float* keys, float multiplier,
                       size_t n, float* scores);
float exp_sum_scalar(float* scores, size_t n, float max);
void weighted_sum_q8_scalar(const WeightRows& w, const int8_t* values, const float* value_scales,
                            size_t n, size_t head_dim, float* out);
void weighted_sum_f32_scalar(const float* weights, const float* values, size_t n, size_t head_dim,
                             float rescale, float* out);
void weighted_sum_q4_scalar(const WeightRows& w, const uint8_t* values,
                            const uint16_t* value_scales, size_t n, size_t head_dim, float* out);

// Adds the partial sums as the contract's tree; overwrites lanes.
inline float sum_lanes(float* lanes) {
  for (size_t step = kSumLanes / 2; step != 0; step /= 2) {
    for (size_t j = 0; j < step; ++j) lanes[j] += lanes[j + step];
  }
  return lanes[0];
}

extern const VariantKernels kScalarVariants;
extern const StateKernels kScalarStates;

}  // namespace cria
