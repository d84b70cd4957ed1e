// The weights as the decoder sees them: tensors of the model and of each layer, by their roles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/model/memory_plan.h"
#include "quant/model/model_layout.h"
#include "quant/numbers/tile16.h"

namespace cria {

// A matrix, y [rows] = W [rows][cols] * x [cols] + bias, a stack of them, or f32 values.
struct Tensor {
  MatrixShape shape;
  uint32_t n_matrices;
  uint32_t number;  // place in the file's canonical order
  TensorForm form;
  const uint8_t* codes;   // tile16 planes, or values; null when the backend packed them elsewhere
  const uint8_t* scales;  // null for floats
  const float* bias;      // [n_matrices][rows] or null
  const void* packed;     // the backend's own, or null

  [[nodiscard]] const float* values() const { return reinterpret_cast<const float*>(codes); }
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
static_assert(sizeof(Tensor) <= kTensorObjectBytes);

// Which of an owner's tensors has a role: its place there counted from 1; 0: there is none.
struct RolePlaces {
  uint8_t place[format::kTensorRoles];
};
static_assert(sizeof(RolePlaces) <= kKindObjectBytes);

struct Mixer;        // runtime/blocks/blocks.h
struct FeedForward;  // the same

struct Layer {
  const format::LayerKind* kind;
  const RolePlaces* roles;
  Tensor* tensors;
  const Mixer* mixer;               // null: none
  const FeedForward* feed_forward;  // null: none
  // The kind whose state it reads, and its place among that kind's layers: its own, but where it
  // shares those of an earlier layer.
  uint32_t state_kind;
  uint32_t state_layer;

  // The tensor of a role, null where the kind has none.
  [[nodiscard]] const Tensor* find(format::TensorRole role) const {
    const uint8_t place = roles->place[static_cast<size_t>(role)];
    return place != 0 ? &tensors[place - 1] : nullptr;
  }
  [[nodiscard]] bool has(uint32_t flag) const { return (kind->flags & flag) != 0; }
};
static_assert(sizeof(Layer) <= kLayerObjectBytes);

struct Weights {
  const RolePlaces* roles;  // of tensors outside the layers
  uint32_t n_before;        // of these stand before the layers,
  uint32_t n_in_layers;     // and so many tensors between them and the others
  std::span<Layer> layers;
  std::span<Tensor> tensors;  // all, in canonical order, but a tied lm_head
  Tensor* lm_head;            // the embedding's planes when tied

  // The tensor of a role outside the layers, null where there is none.
  [[nodiscard]] const Tensor* find(format::TensorRole role) const {
    const uint32_t place = roles->place[static_cast<size_t>(role)];
    if (place == 0) return nullptr;
    return &tensors[place - 1 + (place > n_before ? n_in_layers : 0)];
  }
};

}  // namespace cria
