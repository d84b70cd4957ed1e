// Latent attention: all heads read one compressed row a position (docs/model_format.md, what a
// layer computes).
#pragma once

#include "runtime/blocks/blocks.h"

namespace cria::latent {

[[nodiscard]] Status forward(const Step& s, const Layer& layer, const float* in, float* out);

void turn_back(const TurnBack& t, uint8_t* const* rows);

}  // namespace cria::latent
