// Brings a session's weights to where they are used and points the model at them.
#pragma once

#include "runtime/base/status.h"
#include "runtime/decode/session.h"

namespace cria {

// Weights used in place are checked there, unless skip_checksums says to trust them; all others are
// loaded to the arena, which the plan has counted. Matrices that the backend packs are left to it.
// The chunk table was checked (check_chunk_table); works on all threads of the session.
[[nodiscard]] Status open_weights(cria_session* session, bool skip_checksums);

}  // namespace cria
