// Grouped-query attention over KV caches: tiles of positions with an online softmax, so that
// scratch does not grow with the context.
#pragma once

#include <span>

#include "quant/format.h"
#include "runtime/base/parallel.h"
#include "runtime/decode/kv_cache.h"
#include "runtime/kernels/kernels.h"

namespace cria {

struct AttentionTools {
  const format::ModelConfig& config;
  const Kernels& kernels;
  const Threads& threads;
  uint8_t* scratch;  // [n_tasks][scratch_per_task], laid out as running_layout counts it
  size_t scratch_per_task;
  size_t max_queries;  // as many heads of rows as a task's scratch is for
};

// Writes keys and values of the rows to their caches.
//   k, v [rows][n_kv_heads * head_dim], keys already rotated
void store_keys_values(const AttentionTools& tools, size_t layer, std::span<const Row> rows,
                       const float* k, const float* v);

// out [rows][n_heads * head_dim] = softmax(q * keys * multiplier) * values, each row attending to
// itself and the positions before it in its own cache, within the sliding window when there is one.
// A row's result does not depend on the rows and heads computed with it: tiles begin at multiples
// of kAttentionTile, and each query's sums go on in the order of positions.
//   q [rows][n_heads * head_dim], rotated
void attend(const AttentionTools& tools, size_t layer, std::span<const Row> rows, const float* q,
            float* out);

}  // namespace cria
