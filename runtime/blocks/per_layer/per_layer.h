// Per-layer embeddings: a gate of each layer lets through what its token has for this layer.
#pragma once

#include "runtime/blocks/layer_step.h"

namespace cria::per_layer {

// Where forward finds what the table has for each row's token and its layer:
// [rows][per_layer_width].
[[nodiscard]] float* table_rows(const Step& s, const format::LayerKind& kind);

// Reads them for a layer, by its number, wherever the table lies.
void read_table(const Step& s, const Weights& weights, uint32_t layer);

// What a layer, by its number, adds for each row: out [rows][d_model], overwritten. Its rows of the
// table are read.
[[nodiscard]] Status forward(const Step& s, const Weights& weights, uint32_t layer, float* out);

}  // namespace cria::per_layer
