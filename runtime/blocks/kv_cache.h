// What layers keep of a session's positions so far: keys and values, or what a mixer has instead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/model/memory_plan.h"
#include "runtime/weights/weights.h"

namespace cria {

// Of the layers of one kind: up to four parts of [n_layers][n_heads][n_positions] rows, a row as
// long as the mixer's StateParts say. One row is one position of one head; of a ring, that of a
// position lies at its remainder by n_positions. Blocks have a row for each slot instead.
struct KvCache {
  uint8_t* rows[kMaxStateParts];
  uint32_t row_bytes[kMaxStateParts];
  StateValues values[kMaxStateParts];
  uint32_t n_parts;  // 0: these layers keep nothing
  uint32_t n_layers;
  uint32_t n_heads;
  uint32_t n_positions;
  uint32_t first_kept;  // the first position that it still holds; 0 but for a ring that has gone
                        // round
  KvFormat kv_format;
  Keeps keeps;

  // Place of the row of a position, in rows.
  [[nodiscard]] size_t row(size_t layer, size_t head, size_t position) const {
    return (layer * n_heads + head) * n_positions + position % n_positions;
  }
  [[nodiscard]] uint8_t* at(size_t part, size_t row) const {
    return rows[part] + row * row_bytes[part];
  }
};
static_assert(sizeof(KvCache) <= kCacheObjectBytes);

inline constexpr uint32_t kNoPosition = UINT32_MAX;
inline constexpr uint32_t kNoSlot = UINT32_MAX;

// Where blocks of state may stand (runtime/decode/slots.h).
struct StateSlot {
  uint32_t position;  // kNoPosition: free
  bool is_snapshot;   // or becomes one when a step has passed the position
};
static_assert(sizeof(StateSlot) == kSlotObjectBytes);

// Of all layers of a session.
struct LayerStates {
  KvCache* caches;  // one a kind
  // Of each RoPE table, the rates by which this session's keys are turned.
  const float* rope_rates[format::kMaxRopeTables];
  StateSlot* slots;  // [n_slots], that of the session's position, if not 0, and snapshots
  uint32_t n_slots;  // 0: no layers keep blocks
  // Where a step writes the blocks of positions that have no slot.
  uint32_t write_slot;

  // Where blocks of a position stand; kNoSlot: nowhere.
  [[nodiscard]] uint32_t slot_at(uint32_t position) const {
    for (uint32_t i = 0; kHasBlocks && i < n_slots; ++i) {
      if (slots[i].position == position) return i;
    }
    return kNoSlot;
  }
};

// Of a kind's layers, in memory of the carver (lay_out_state).
[[nodiscard]] KvCache make_cache(const Config& config, size_t kind, const PlanInput& in,
                                 Carver* carver);

// A short context is turned as the model was first trained, a long one as it was stretched; one
// session does not change over, since its keys are turned already.
void choose_rope_rates(const format::ModelScalars& model, const Weights& weights, uint32_t context,
                       LayerStates* states);

// One token of a step: where it comes from and where its keys and values go.
struct Row {
  const LayerStates* states;  // of its session
  uint32_t position;
  uint32_t token;
};
static_assert(sizeof(Row) <= kRowObjectBytes);

}  // namespace cria
