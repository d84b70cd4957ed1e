// Grouped-query attention over the KV cache: tiles of positions with an online softmax, so that
// scratch does not grow with the context.
#pragma once

#include "runtime/decode/session.h"

namespace cria {

// Writes keys and values of n_rows new positions, the first at s.position, to the cache.
//   k, v [n_rows][n_kv_heads * head_dim], keys already rotated
void store_keys_values(const cria_session& s, size_t layer, size_t n_rows, const float* k,
                       const float* v);

// out [n_rows][n_heads * head_dim] = softmax(q * keys * multiplier) * values, each row attending to
// itself and the positions before it, within the sliding window when there is one. A row's result
// does not depend on the rows computed with it: tiles begin at multiples of kAttentionTile.
//   q [n_rows][n_heads * head_dim], rotated
void attend(const cria_session& s, size_t layer, size_t n_rows, const float* q, float* out);

}  // namespace cria
