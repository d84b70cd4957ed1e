// What the context holds of a cria_chat: messages become tokens, the oldest exchanges make room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/chat/chat.h"

namespace cria {

// Whether an empty context could hold them.
[[nodiscard]] bool has_room(const cria_chat& c, uint64_t n_tokens);

// Messages [0, n) without those of the first n_left_out exchanges, as the template wants them.
[[nodiscard]] std::span<const cria_message> view_of(const cria_chat& c, uint32_t n_left_out,
                                                    uint32_t n);

// Appends the tokens of messages [first, view.size()) to next.
Status encode_messages(cria_chat* c, cria_workspace* w, std::span<const cria_message> view,
                       size_t first, bool opens_turn);

// Positions that are kept free for an answer.
[[nodiscard]] uint32_t room_for_answer(const cria_chat& c);

// Once exchanges have to leave, more of them go, so that this happens rarely.
[[nodiscard]] uint32_t spare_room(const cria_chat& c);

// Forgets the first n exchanges; the context is the caller's.
void note_dropped(cria_chat* c, uint32_t n_exchanges);

// Exchanges whose messages are all in the context: those of next cannot leave it.
[[nodiscard]] uint32_t exchanges_in_context(const cria_chat& c);

// Whether exchanges can leave the context without reading the others again.
[[nodiscard]] bool can_drop(const cria_chat& c);

// Drops the first n exchanges, which are in the context. The tokens of next stay to be read.
Status drop_exchanges(cria_chat* c, cria_workspace* w, uint32_t n);

// Drops as few of the oldest exchanges as make room for n_tokens, and more of them while that
// leaves less than spare; never the newest one.
Status drop_for(cria_chat* c, cria_workspace* w, uint64_t n_tokens, uint32_t spare);

// Leaves out as few of the oldest exchanges as give the wanted room, the newest never; once some
// have to go, more go with them. What is left is to be read again, as far as the context does not
// begin with it.
Status read_again(cria_chat* c, cria_workspace* w, uint32_t wanted);

// Fills next with the conversation without what opens a turn: with what is left of a context that
// is full for any question when one of n_question tokens comes.
Status encode_for_later(cria_chat* c, cria_workspace* w, uint32_t wanted, uint32_t n_question);

// How many tokens, at most most, are first in the context and in next.
[[nodiscard]] uint32_t n_common(const cria_chat& c, uint32_t most);

// Keeps the first n_kept tokens of the context, which next begins with, and of next the others.
Status keep_first(cria_chat* c, uint32_t n_kept);

// Makes the context end before a message of it that is a user's.
void rewind_to(cria_chat* c, uint32_t index);

}  // namespace cria
