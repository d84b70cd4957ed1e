// The weights as the decoder sees them: tensors by layer and role.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>

#include "quant/format.h"
#include "quant/memory_plan.h"
#include "quant/tensor_roles.h"
#include "quant/tile16.h"

namespace cria {

// A matrix, y [rows] = W [rows][cols] * x [cols] + bias; a stack of such matrices; or a vector.
struct Tensor {
  MatrixShape shape;      // of each matrix; a vector has one row
  uint32_t n_matrices;    // of a stack; else 1
  uint32_t number;        // place in the file's canonical order
  const uint8_t* codes;   // tile16 planes of all matrices, or a vector's floats; null when the
                          // backend packed the matrices elsewhere
  const uint8_t* scales;  // null for float formats
  const float* bias;      // [n_matrices][rows] or null
  const void* packed;     // the backend's own, or null

  [[nodiscard]] const float* floats() const { return reinterpret_cast<const float*>(codes); }
  // Planes of one matrix: its rows are padded to whole tiles. Most tensors are one, whose size
  // nobody needs.
  [[nodiscard]] const uint8_t* codes_of(uint32_t index) const {
    return index == 0 ? codes : codes + index * static_cast<size_t>(code_plane_bytes(shape));
  }
  [[nodiscard]] const uint8_t* scales_of(uint32_t index) const {
    if (index == 0 || scales == nullptr) return scales;
    return scales + index * static_cast<size_t>(scale_plane_bytes(shape));
  }
};
static_assert(sizeof(Tensor) <= 64);

inline constexpr uint8_t kNoPlace = 0xff;

// Where tensors of a role lie among those of a layer, or among those outside the layers. A bias
// has the place of its matrix, whose it is.
struct RolePlaces {
  uint8_t of[std::size(kTensorRoles)];
};

struct TensorsByRole {
  const RolePlaces* places;
  Tensor* tensors;

  // Null where there is no tensor of that role.
  [[nodiscard]] const Tensor* find(format::TensorRole role) const {
    const uint8_t place = places->of[static_cast<size_t>(role)];
    return place != kNoPlace ? tensors + place : nullptr;
  }
  [[nodiscard]] Tensor* find(format::TensorRole role) {
    return const_cast<Tensor*>(std::as_const(*this).find(role));
  }
};

struct Layer : TensorsByRole {
  uint32_t kind;   // its number
  uint32_t place;  // among the layers of its kind
};

struct Weights {
  TensorsByRole outside;  // the layers
  std::span<Layer> layers;
  std::span<Tensor> tensors;  // those outside the layers, then those of each layer
  RolePlaces outside_places;
  RolePlaces layer_places;  // of the one kind of layers that a file has

  [[nodiscard]] std::span<Tensor> layer_tensors() const {
    return tensors.subspan(static_cast<size_t>(layers.front().tensors - tensors.data()));
  }
};

// A bias stands behind its matrix.
[[nodiscard]] constexpr bool is_bias(format::TensorRole role) {
  const uint32_t flags = format::kQkvBias | format::kOutputBias | format::kMlpBias;
  return (role_row(role).needs & flags) != 0;
}

// Tensors that a layer may have, and that there may be outside, biases not counted.
[[nodiscard]] consteval size_t most_tensors(bool in_layers) {
  size_t n = 0;
  for (const TensorRoleRow& row : kTensorRoles) {
    n += (row.place == TensorPlace::kInLayers) == in_layers && !is_bias(row.role);
  }
  return n;
}
inline constexpr size_t kMostLayerTensors = most_tensors(true);
static_assert(sizeof(Layer) + (kMostLayerTensors + most_tensors(false)) * sizeof(Tensor) <=
              kLayerObjectBytes);

// Makes weights point to layers and tensors of a config in memory [kLayerObjectBytes * n_layers],
// all of them empty. weights stays where it is from then on.
void lay_out_weights(const format::ModelConfig& config, uint8_t* memory, Weights* weights);

// The tensor of the decoder's that one of the file belongs to: of a bias, its matrix.
[[nodiscard]] Tensor* tensor_of(Weights* weights, format::TensorRole role, uint32_t layer);

}  // namespace cria
