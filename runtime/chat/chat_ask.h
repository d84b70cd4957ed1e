// A question to a cria_chat: what has to be read for it, and how it is taken back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/chat/chat.h"

namespace cria {

// The step that reads what was planned.
void give_turn(cria_chat* c, cria_turn* turn);

// Whether what was planned has been read.
[[nodiscard]] bool is_plan_read(const cria_chat& c);

// What was there before the question was asked is there again.
void take_question_back(cria_chat* c);

// Makes text the newest message, or asks the newest question anew where it is null, and plans what
// is to be read. On an error the conversation is as it was, but for exchanges that had to leave.
Status ask_question(cria_chat* c, cria_workspace* w, const char* text, size_t n_bytes,
                    uint32_t max_tokens, cria_turn* turn);

}  // namespace cria
