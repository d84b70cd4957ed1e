// A short convolution between two gates: what LFM2 has in place of most of its attention
// (docs/model_format.md, what a layer computes).
#pragma once

#include "runtime/blocks/blocks.h"

namespace cria::short_convolution {

[[nodiscard]] Status forward(const Step& s, const Layer& layer, const float* in, float* out);

}  // namespace cria::short_convolution
