// The decoder: tokens in, logits out.
#pragma once

#include <span>

#include "runtime/decode/session.h"

namespace cria {

// Points s->scratch into s->step as running_layout says.
void lay_out_scratch(cria_session* s);

// Appends at most prefill_chunk tokens to the context (there is room) and advances the position.
//   logits  null: none; else the last row's go to [vocab_size], or with all_rows every row's to
//           [n][vocab_size]
enum class LogitRows { kLast, kAll };
[[nodiscard]] Status forward(cria_session* s, std::span<const uint32_t> tokens, LogitRows rows,
                             float* logits);

}  // namespace cria
