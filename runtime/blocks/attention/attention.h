// Attention with queries, keys and values of their own (docs/model_format.md, what a layer
// computes).
#pragma once

#include "runtime/blocks/blocks.h"

namespace cria::attention {

[[nodiscard]] Status forward(const Step& s, const Layer& layer, const float* in, float* out);

void turn_back(const TurnBack& t, uint8_t* const* rows);

}  // namespace cria::attention
