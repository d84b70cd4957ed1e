// The object behind cria_session: what changes as one conversation goes.
#pragma once

#include "runtime/base/random.h"
#include "runtime/decode/kv_cache.h"
#include "runtime/decode/model.h"

struct cria_session {
  const cria_model* model;
  cria::KvCache kv;
  uint32_t* history;  // [context] tokens of the positions used
  float* logits;      // [vocab_size]
  float* last_row;    // [d_model], what the newest logits come from
  uint32_t context;
  uint32_t position;
  uint32_t first_kept;  // the first position whose keys and values the cache still holds; 0 but for
                        // a ring that has gone round
  uint32_t first_moved;  // the first position whose keys and values are not those of reading the
                         // tokens, since cria_drop; UINT32_MAX: none
  bool has_logits;
  bool is_in_step;  // while cria_step looks for a session that it was given twice
  cria::Pcg32 random;
  size_t n_bytes;  // of memory, this object included
};
static_assert(sizeof(cria_session) <= cria::kSessionObjectBytes);

namespace cria {

// The first position that a token at position attends to.
[[nodiscard]] inline uint32_t first_attended(const cria_session& s, uint32_t position) {
  const uint32_t window = s.model->config.sliding_window;
  return window != 0 && position >= window ? position + 1 - window : 0;
}

// Whether tokens can follow at position: all that they attend to is in the cache.
[[nodiscard]] inline bool can_follow(const cria_session& s, uint32_t position) {
  return position == 0 || first_attended(s, position) >= s.first_kept;
}

// Makes the context end before position, which must be able to follow.
inline void cut(cria_session* s, uint32_t position) {
  s->position = position;
  if (position == 0) s->first_kept = 0;
  if (position <= s->first_moved) s->first_moved = UINT32_MAX;
  s->has_logits = false;
}

// Notes that rows before end were written: a ring loses what it held in their places.
inline void note_written(cria_session* s, uint32_t end) {
  const uint32_t n = s->kv.n_positions;
  if (end > n && end - n > s->first_kept) s->first_kept = end - n;
}

}  // namespace cria
