// Slots of a session: where its layers' blocks of state stand, each with those of all layers. A
// block is of one position and cannot be cut back, so that of another position has a slot of its
// own: a snapshot. One of a later position is reserved; the step that passes it writes it.
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/decode/session.h"

namespace cria {

// A step of a session that keeps blocks reads the slot of its position and writes a free one and
// those of later positions, so that nothing has happened until it is done.
void begin_blocks(cria_session* s);
// All rows are written: what was written last is that of a position.
void commit_blocks(cria_session* s, uint32_t position);

// The slot for blocks that come from elsewhere, those of a position, in place of all that the
// session has.
uint32_t replace_blocks(cria_session* s, uint32_t position);

// cria_keep_snapshot.
Status keep_snapshot(cria_session* s, uint32_t position);

// The last position up to this one at which tokens can follow.
[[nodiscard]] uint32_t last_followed(const cria_session& s, uint32_t position);

}  // namespace cria
