// The weights as the decoder sees them: matrices and vectors, by their roles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format.h"
#include "quant/memory_plan.h"
#include "quant/tensor_roles.h"
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
  const float* q_norm;          // [head_dim] or null
  const float* k_norm;          // [head_dim] or null
  Matrix q, k, v, o;
  Matrix gate, up, down;
};
static_assert(sizeof(Layer) <= kLayerObjectBytes);

// A layer's matrices and vectors by their roles, in the order in which backends pack matrices.
struct LayerMatrix {
  format::TensorRole role;
  format::TensorRole bias;
  Matrix Layer::*matrix;
};
inline constexpr LayerMatrix kLayerMatrices[] = {
    {format::TensorRole::kQ, format::TensorRole::kQBias, &Layer::q},
    {format::TensorRole::kK, format::TensorRole::kKBias, &Layer::k},
    {format::TensorRole::kV, format::TensorRole::kVBias, &Layer::v},
    {format::TensorRole::kO, format::TensorRole::kOBias, &Layer::o},
    {format::TensorRole::kGate, format::TensorRole::kGateBias, &Layer::gate},
    {format::TensorRole::kUp, format::TensorRole::kUpBias, &Layer::up},
    {format::TensorRole::kDown, format::TensorRole::kDownBias, &Layer::down},
};
struct LayerVector {
  format::TensorRole role;
  const float* Layer::*vector;
};
inline constexpr LayerVector kLayerVectors[] = {
    {format::TensorRole::kAttentionNorm, &Layer::attention_norm},
    {format::TensorRole::kFfnNorm, &Layer::ffn_norm},
    {format::TensorRole::kQNorm, &Layer::q_norm},
    {format::TensorRole::kKNorm, &Layer::k_norm},
};

// Every tensor of a layer that a file may hold has a place in Layer.
[[nodiscard]] consteval bool all_have_places() {
  for (const TensorRoleRow& row : kTensorRoles) {
    size_t n = row.place == TensorPlace::kInLayers ? 0 : 1;
    for (const LayerMatrix& m : kLayerMatrices) n += m.role == row.role || m.bias == row.role;
    for (const LayerVector& v : kLayerVectors) n += v.role == row.role;
    if (n != 1) return false;
  }
  return true;
}
static_assert(all_have_places());

struct Weights {
  const float* rope_inverse_frequencies;       // [rotary_dim / 2]
  const float* rope_long_inverse_frequencies;  // [rotary_dim / 2] or null
  const float* final_norm;                     // [d_model]
  Matrix embedding;
  Matrix lm_head;  // the embedding's planes when tied
  Layer* layers;   // [n_layers]
};

}  // namespace cria
