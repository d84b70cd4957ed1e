// A step: tokens of one or several sessions through the decoder together.
#pragma once

#include <span>

#include "runtime/base/status.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {

// cria_step. Errors: kInvalidArgument for a turn that cannot be, kContextFull, kCancelled, the
// backend's; then every session is as before.
[[nodiscard]] Status step(cria_workspace* w, std::span<const cria_turn> turns);

}  // namespace cria
