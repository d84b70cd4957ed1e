// Keys and values of a session's positions so far, for each layer and key-value head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/memory_plan.h"

namespace cria {

// codes [n_layers][n_kv_heads][n_positions][head_dim], int8 or f32; scales [n_layers][n_kv_heads]
// [n_positions] f32, int8 only. One row of codes is one position of one head; of a ring, that of a
// position lies at its remainder by n_positions.
struct KvCache {
  KvFormat kv_format;
  uint32_t n_kv_heads;
  uint32_t n_positions;  // as kv_positions says
  uint32_t head_dim;
  uint8_t* key_codes;
  uint8_t* value_codes;
  float* key_scales;
  float* value_scales;
  const float* inverse_frequencies;  // of RoPE, by which the keys are turned

  // Place of the row of a position, in rows.
  [[nodiscard]] size_t row(size_t layer, size_t kv_head, size_t position) const {
    return (layer * n_kv_heads + kv_head) * n_positions + position % n_positions;
  }
  [[nodiscard]] size_t row_bytes() const {
    return kv_format == KvFormat::kF32 ? size_t{head_dim} * 4 : head_dim;
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
