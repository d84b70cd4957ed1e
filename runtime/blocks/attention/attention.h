// Attention with queries, keys and values of their own (docs/model_format.md, what a layer
// computes).
#pragma once

#include "runtime/blocks/blocks.h"

namespace cria::attention {

[[nodiscard]] Status forward(const Step& s, const Layer& layer, const float* in, float* out);

// Makes the queries of later positions longer.
void grow(const Step& s, const format::LayerKind& k, float* q);

// One key of a cache: codes and their scale, or floats.
void turn_back_row(const TurnBack& t, size_t width, uint8_t* row, uint8_t* scales);

void turn_back(const TurnBack& t, uint8_t* const* rows);

}  // namespace cria::attention
