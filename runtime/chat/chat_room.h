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

// Exchanges whose messages are all in a part of said.
[[nodiscard]] uint32_t exchanges_in(const cria_chat& c, ChatPart part);

// Whether exchanges leave that part without reading the others again, where the session holds it.
[[nodiscard]] bool drops_exchanges(const cria_chat& c, ChatPart part);

// Whether they can, as the session holds it.
[[nodiscard]] bool can_drop(const cria_chat& c, ChatPart part);

// Drops the first n exchanges, which are in said. What closes the last answer in it is unread then,
// as other tokens after it: they are read without the dropped ones in sight.
Status drop_exchanges(cria_chat* c, cria_workspace* w, uint32_t n);

// How few of the oldest exchanges make room after a part for n_tokens if they are dropped, and
// more of them while that leaves less than spare; 0 where the newest one would have to go too.
[[nodiscard]] uint32_t n_to_drop(const cria_chat& c, ChatPart part, uint64_t n_tokens,
                                 uint32_t spare);

// Plans to read what is left of the conversation again, as far as the session does not begin with
// it: without as few of the oldest exchanges as give the wanted room, the newest never; once some
// have to go, more go with them. One goes in any case where said was full.
Status read_again(cria_chat* c, cria_workspace* w, uint32_t wanted, bool was_full);

// Fills next with the conversation without what opens a turn: with what is left of a context that
// is full for any question when one of n_question tokens comes.
Status encode_for_later(cria_chat* c, cria_workspace* w, uint32_t wanted, uint32_t n_question,
                        bool was_full);

// Keeps of the session what next begins with, at most most tokens, and of next the others.
void keep_common(cria_chat* c, uint32_t most);

}  // namespace cria
