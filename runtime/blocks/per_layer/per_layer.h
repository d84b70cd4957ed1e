// Per-layer embeddings: a gate of each layer lets through what its token has for this layer.
#pragma once

#include "runtime/blocks/layer_step.h"

namespace cria::per_layer {

// The row of the table that a token has for a layer, by its number.
[[nodiscard]] inline size_t table_row(const format::ModelScalars& m, uint32_t token,
                                      uint32_t layer) {
  return size_t{token} * m.n_layers + layer;
}

// Where forward finds what the table has for each row's token and its layer:
// [rows][per_layer_width].
[[nodiscard]] float* table_rows(const Step& s, const format::LayerKind& kind);

// Reads them for a layer, by its number, wherever the table lies.
void read_table(const Step& s, const Weights& weights, uint32_t layer);

// What a layer, by its number, adds for each row: out [rows][d_model], overwritten. Its rows of the
// table are read.
[[nodiscard]] Status forward(const Step& s, const Weights& weights, uint32_t layer, float* out);

}  // namespace cria::per_layer
