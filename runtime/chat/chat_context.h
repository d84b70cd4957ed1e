// What the context holds of a cria_chat, and how much of it the session has.
#pragma once

#include <cstdint>

#include "runtime/chat/chat.h"

namespace cria {

// How many of the first n tokens of said the session holds.
[[nodiscard]] uint32_t n_held(const cria_chat& c, uint32_t n);

// Where the tokens of the last answer of a part of said end that were read as it was made.
[[nodiscard]] uint32_t behind_answer(const cria_chat& c, ChatPart part);

[[nodiscard]] ChatPart all_said(const cria_chat& c);

// What said would be if the conversation had ended before message n: up to an answer that the
// model gave then. Nothing where exchanges have been dropped since, or no such answer is there.
[[nodiscard]] ChatPart part_before(const cria_chat& c, uint32_t n);

// Makes that all of said.
void cut_context(cria_chat* c, ChatPart part);

// Nothing is in said. What the session holds may still be the beginning of what is said next, but
// for what cria_drop moved.
void forget_context(cria_chat* c);

// Makes the session end before a position, or, where a sliding window has gone on, before all;
// where layers keep blocks, at the last snapshot before it.
void end_session(cria_chat* c, uint32_t position);

}  // namespace cria
