// Per-layer embeddings: a gate of each layer lets through what its token has for this layer alone.
#pragma once

#include "runtime/blocks/layer_step.h"

namespace cria::per_layer {

// Where what a layer reads goes: rows of the table, [rows][per_layer_width], one of each row.
[[nodiscard]] float* inputs(const Step& s, const Layer& layer);

// The same from the model's table.
void read_table(const Step& s, const Weights& weights, uint32_t layer);

// What a layer adds for each row, by its inputs: out [rows][d_model], overwritten.
[[nodiscard]] Status forward(const Step& s, const Weights& weights, uint32_t layer, float* out);

}  // namespace cria::per_layer
