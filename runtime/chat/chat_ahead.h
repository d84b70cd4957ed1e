// What of the next question's reading can be done before it is known.
#pragma once

#include <cstdint>

#include "runtime/chat/chat.h"

namespace cria {

// Reads at most most_tokens of what comes before any next question; n_read is 0 when nothing is
// left. Said stays what it is: the question's plan is the same, its reading shorter. kCancelled by
// the workspace's hook: nothing was read.
Status read_ahead(cria_chat* c, cria_workspace* w, uint32_t max_tokens, uint32_t most_tokens,
                  uint32_t* n_read);

}  // namespace cria
