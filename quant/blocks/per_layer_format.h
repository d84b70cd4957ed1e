// Per-layer embeddings: what each layer adds of its token for itself, behind its feed-forward.
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

[[nodiscard]] constexpr bool reads(const LayerKind& k) {
  return kHasVariants && (k.flags & format::flag::kPerLayerInput) != 0;
}

// Of all rows of a step.
struct Scratch {
  float* inputs;  // [rows][per_layer_width], rows of the table, then what the gate lets through
  float* gate;    // [rows][per_layer_width]
};

inline Scratch lay_out(const ModelScalars& m, const LayerKind& k, const StepShape& shape,
                       Carver* carver) {
  const uint32_t rows = reads(k) ? shape.n_rows : 0;
  return {carver->take<float>(rows, m.per_layer_width),
          carver->take<float>(rows, m.per_layer_width)};
}

}  // namespace cria::per_layer
