// Per-layer embeddings: a gate of each layer lets through what its token has for this layer.
#pragma once

#include "runtime/blocks/layer_step.h"

namespace cria::per_layer {

// What a layer, by its number, adds for each row: out [rows][d_model], overwritten. It reads one
// row of the model's table for each row, wherever the table lies.
[[nodiscard]] Status forward(const Step& s, const Weights& weights, uint32_t layer, float* out);

}  // namespace cria::per_layer
