// Per-layer embeddings: after its feed-forward, a layer adds what its own table has for the token.
#pragma once

#include "quant/blocks/state_part.h"
#include "quant/blocks/tensor_row.h"

namespace cria::per_layer {

using namespace extents;

inline constexpr Size kWidth = [](const ModelScalars& m, const LayerKind&) {
  return m.per_layer_width;
};
inline constexpr Size kTableRows = [](const ModelScalars& m, const LayerKind&) -> uint32_t {
  return m.vocab_size * m.n_layers;
};
inline constexpr Size kThere = [](const ModelScalars& m, const LayerKind&) -> uint32_t {
  return m.per_layer_width != 0 ? 1 : 0;
};
inline constexpr Size kLayers = [](const ModelScalars& m, const LayerKind&) {
  return m.per_layer_width != 0 ? m.n_layers : 0;
};

// Of all rows of a step.
struct Scratch {
  float* rows;  // [rows][per_layer_width], of the table, then what the gate is multiplied by
  float* gate;  // [rows][per_layer_width], before that what is projected
};

inline Scratch lay_out(const ModelScalars& m, const LayerKind& k, const StepShape& shape,
                       Carver* carver) {
  const uint32_t rows = (k.flags & format::flag::kPerLayerInput) != 0 ? shape.n_rows : 0;
  return {carver->take<float>(rows, m.per_layer_width),
          carver->take<float>(rows, m.per_layer_width)};
}

}  // namespace cria::per_layer
