// The messages of a cria_chat and their texts, whatever the context holds of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/chat/chat.h"

namespace cria {

// Whether the first message is the system's.
[[nodiscard]] bool has_system(const cria_chat& c);

// Where the text of a message begins.
[[nodiscard]] uint32_t text_before(const cria_chat& c, uint32_t index);

// Questions, each with what was answered.
[[nodiscard]] uint32_t n_exchanges(const cria_chat& c);

// The message that follows the first n exchanges.
[[nodiscard]] uint32_t behind_exchanges(const cria_chat& c, uint32_t n);

// Forgets messages [first, end); the context is the caller's.
void erase_messages(cria_chat* c, uint32_t first, uint32_t end);

// Adds to the newest message. False, and nothing is changed, when there is no memory for it.
[[nodiscard]] bool append_text(cria_chat* c, const char* text, size_t n_bytes);

// Adds a message, before those that are hidden. False, and nothing is changed, when there is no
// memory for it.
[[nodiscard]] bool add_message(cria_chat* c, uint32_t role, const char* text, size_t n_bytes);

// Hides the messages from first on: they stay in memory after the others.
void hide_messages(cria_chat* c, uint32_t first);

void show_messages(cria_chat* c);

}  // namespace cria
