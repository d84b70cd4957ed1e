// A step: tokens of one or several sessions through the decoder together.
#pragma once

#include <span>

#include "runtime/base/status.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {

// cria_step. Errors: kInvalidArgument for an entry that cannot be, kContextFull, kCancelled, the
// backend's; then every session is as before.
[[nodiscard]] Status step(cria_workspace* w, std::span<const cria_batch_entry> entries);

// Rows of a session that a chunk may hold: they are all written before the first of them is read,
// and must not take the places of what that one attends to.
[[nodiscard]] uint32_t most_rows(const cria_session& session);

}  // namespace cria
