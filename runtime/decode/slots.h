// Slots of a session: where its layers' blocks of state stand, each with those of all layers. A
// block is of one position and cannot be cut back, so that of another position has a slot of its
// own: a snapshot.
#pragma once

#include <cstdint>

#include "runtime/decode/session.h"

namespace cria {

// A step of so many tokens of a session that keeps blocks reads the slot of its position and writes
// a free one, so that nothing has happened until it is done. If it passes the position that is to be
// kept, this one has a slot too; where none is free a snapshot makes room, which is lost if the step
// fails.
void begin_blocks(cria_session* s, size_t n_tokens);
// Some rows are written: the others go on from there.
inline void go_on_with_blocks(cria_session* s) { s->states.read_slot = s->states.write_slot; }
// All are: what was written is that of a position.
void commit_blocks(cria_session* s, uint32_t position);

// The slot for blocks that come from elsewhere, those of a position, in place of all that the
// session has.
uint32_t replace_blocks(cria_session* s, uint32_t position);

// Marks the slot of the session's position, where there is room for snapshots. Where all of them
// are taken, the one goes that is nearest to the one before it.
void keep_snapshot(cria_session* s);
// The same of a position that the next step reaches or passes. Of another one nothing is kept.
void keep_snapshot_at(cria_session* s, uint32_t position);

// The last position up to this one at which tokens can follow.
[[nodiscard]] uint32_t last_followed(const cria_session& s, uint32_t position);

}  // namespace cria
