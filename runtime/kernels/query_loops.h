// The contracts for blocks of queries by kernels of one query, for instruction sets that gain
// nothing from a block. Everything is static: files of different ISAs include this (overrides.h).
#pragma once

#include "runtime/kernels/kernels.h"

namespace cria {

using ScoresOfQuery = void (*)(const int8_t* q_codes, const float* q_scales, size_t head_dim,
                               const int8_t* keys, const float* key_scales, float multiplier,
                               size_t n, float* scores);

template <ScoresOfQuery kOne>
static inline void scores_by_query(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                                   const float* key_scales, float multiplier, size_t n,
                                   float* scores, size_t stride) {
  const size_t n_groups = (head_dim + kActivationGroup - 1) / kActivationGroup;
  for (size_t i = 0; i < block_rows(q.n_rows); ++i) {
    kOne(q.codes + i * n_groups * kActivationGroup, q.scales + i * n_groups, head_dim, keys,
         key_scales, multiplier, n, scores + i * stride);
  }
}

// One is a function (weights, values, value_scales, n, head_dim, rescale, out).
template <auto kOne, class Code, class Scale>
static inline void weighted_sum_by_query(const WeightRows& w, const Code* values,
                                         const Scale* value_scales, size_t n, size_t head_dim,
                                         float* out) {
  for (size_t i = 0; i < block_rows(w.n_rows); ++i) {
    kOne(w.weights + i * w.stride, values, value_scales, n, head_dim, w.rescale[i],
         out + i * head_dim);
  }
}

}  // namespace cria
