// The weights as the decoder sees them: matrices and vectors, by their roles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format.h"
#include "quant/memory_plan.h"
#include "quant/tile16.h"

namespace cria {

// One weight matrix: y [rows] = W [rows][cols] * x [cols] + bias.
struct Matrix {
  MatrixShape shape;
  uint32_t tensor;        // place in the file's canonical order
  const uint8_t* codes;   // tile16 planes; null when the backend packed the matrix elsewhere
  const uint8_t* scales;  // null for float formats
  const float* bias;      // [rows] or null
  const void* packed;     // the backend's own, or null
};

struct Layer {
  const float* attention_norm;  // [d_model]
  const float* ffn_norm;        // [d_model]
  Matrix q, k, v, o;
  Matrix gate, up, down;
};
static_assert(sizeof(Layer) <= kLayerObjectBytes);

struct Weights {
  const float* rope_inverse_frequencies;  // [head_dim / 2]
  const float* final_norm;                // [d_model]
  Matrix embedding;
  Matrix lm_head;  // the embedding's planes when tied
  Layer* layers;   // [n_layers]
};

}  // namespace cria
