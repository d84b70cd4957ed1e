// The object behind cria_session: what changes as one conversation goes.
#pragma once

#include <algorithm>
#include <iterator>
#include <span>

#include "runtime/base/random.h"
#include "runtime/blocks/kv_cache.h"
#include "runtime/decode/model.h"

struct cria_session {
  const cria_model* model;
  cria::LayerStates states;
  uint32_t* history;  // [context] tokens of the positions used
  float* logits;      // [vocab_size]
  float* last_row;    // [d_model], what the newest logits come from
  uint32_t context;
  uint32_t position;
  uint32_t first_moved;  // the first position whose keys and values are not those of reading the
                         // tokens, since cria_drop; UINT32_MAX: none
  cria::KvFormat kv_format;
  bool has_logits;
  bool is_in_step;  // while cria_step looks for a session that it was given twice
  cria::Pcg32 random;
  size_t n_bytes;  // of memory, this object included

  // What layers keep, by kind; those that keep nothing have no parts.
  [[nodiscard]] std::span<cria::KvCache> caches() const {
    return {states.caches, model->config.kinds.size()};
  }
};
static_assert(sizeof(cria_session) <= cria::kSessionObjectBytes);

namespace cria {

// Whether layers keep blocks, and so go back only to snapshots.
[[nodiscard]] inline bool keeps_blocks(const Config& config) { return state_slots(config, 0) != 0; }

// Whether rows may become those of other positions: what is learned of a position stays in them,
// and blocks have no rows.
[[nodiscard]] inline bool can_drop(const Config& config) {
  return !has_flag(config, format::kLearnedPositions) && !keeps_blocks(config);
}

// The first position that a token at position attends to in layers of a kind.
[[nodiscard]] inline uint32_t first_attended(const format::LayerKind& kind, uint32_t position) {
  return kind.window != 0 && position >= kind.window ? position + 1 - kind.window : 0;
}

// Whether two sessions of a model turn keys by the same rates.
[[nodiscard]] inline bool are_turned_alike(const cria_session& a, const cria_session& b) {
  return std::equal(std::begin(a.states.rope_rates), std::end(a.states.rope_rates),
                    std::begin(b.states.rope_rates));
}

// Whether tokens can follow at position: all that they go on from is in the caches.
[[nodiscard]] inline bool can_follow(const cria_session& s, uint32_t position) {
  const bool has_slots = kHasBlocks && s.states.n_slots != 0;
  if (has_slots && position != 0 && s.states.slot_at(position) == kNoSlot) return false;
  for (size_t kind = 0; kind < s.caches().size() && position != 0; ++kind) {
    const uint32_t first = first_attended(s.model->config.kinds[kind], position);
    if (first < s.caches()[kind].first_kept) return false;
  }
  return true;
}

// Makes the context end before position, which must be able to follow.
inline void cut(cria_session* s, uint32_t position) {
  s->position = position;
  if (position == 0) {
    for (KvCache& cache : s->caches()) cache.first_kept = 0;
  }
  for (uint32_t i = 0; kHasBlocks && i < s->states.n_slots; ++i) {
    StateSlot& slot = s->states.slots[i];
    if (position == 0 || slot.position > position) slot = {kNoPosition, false};
  }
  if (position <= s->first_moved) s->first_moved = UINT32_MAX;
  s->has_logits = false;
}

// Notes that rows before end were written: a ring loses what it held in their places.
inline void note_written(cria_session* s, uint32_t end) {
  for (KvCache& cache : s->caches()) {
    const uint32_t n = cache.n_positions;
    if (cache.n_parts == 0 || (kHasBlocks && cache.keeps == Keeps::kBlock)) continue;
    if (end > n && end - n > cache.first_kept) cache.first_kept = end - n;
  }
}

}  // namespace cria
