// Grouped-query attention over KV caches: tiles of positions with an online softmax, so that
// scratch does not grow with the context.
#pragma once

#include "quant/blocks/attention_format.h"
#include "runtime/blocks/layer_step.h"

namespace cria::attention {

// Writes keys and values of a step's rows, keys already rotated, to their caches.
void store_keys_values(const Step& s, const Layer& layer, const Scratch& t);

// out [rows][n_query_heads * value_dim] = softmax(q * keys * multiplier) * values, queries already
// rotated, each row attending to itself and the positions before it in its own cache, within the
// window when there is one. A row's result does not depend on the rows and heads computed with it:
// tiles begin at multiples of kTile, and each query's sums go on in the order of positions.
void attend(const Step& s, const Layer& layer, const Scratch& t, float* out);

}  // namespace cria::attention
