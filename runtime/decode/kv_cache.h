// Keys and values of a session's positions so far, for each layer and key-value head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/memory_plan.h"

namespace cria {

// Four parts of [n_layers][n_kv_heads][n_positions] rows, a row as long as kv_row_bytes says. One
// row is one position of one head; of a ring, that of a position lies at its remainder by
// n_positions.
struct KvCache {
  KvFormat kv_format;
  uint32_t n_kv_heads;
  uint32_t n_positions;  // as kv_positions says
  uint32_t head_dim;
  KvRowBytes row_bytes;
  uint8_t* keys;                     // int8 [head_dim], or f32
  uint8_t* values;                   // int8 or f32 [head_dim], or 4 bits (quant/value_groups.h)
  float* key_scales;                 // one a row
  uint8_t* value_scales;             // one f32 a row, or a bf16 for each group of 32 elements
  const float* inverse_frequencies;  // of RoPE, by which the keys are turned

  // Place of the row of a position, in rows.
  [[nodiscard]] size_t row(size_t layer, size_t kv_head, size_t position) const {
    return (layer * n_kv_heads + kv_head) * n_positions + position % n_positions;
  }
};

// One token of a step: where it comes from and where its keys and values go.
struct Row {
  const KvCache* kv;  // of its session
  uint32_t position;
  uint32_t token;
};
static_assert(sizeof(Row) <= kRowObjectBytes);

}  // namespace cria
