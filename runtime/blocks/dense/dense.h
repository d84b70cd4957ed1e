// One MLP, gated or plain (docs/model_format.md, what a layer computes).
#pragma once

#include "quant/blocks/feed_forward_formats.h"
#include "runtime/blocks/layer_step.h"

namespace cria::dense {

[[nodiscard]] Status forward(const Step& s, const Layer& layer, const float* in, float* out);

// The same in this scratch: of a layer that has more than an MLP.
[[nodiscard]] Status multiply(const Step& s, const Layer& layer, const Scratch& t, const float* in,
                              float* out);

// n_values of the kind's activation: of gate times up, or only of up. Returns where they are, in
// one of the two.
float* activate(const Step& s, const LayerKind& k, float* gate, float* up, size_t n_values);

}  // namespace cria::dense
