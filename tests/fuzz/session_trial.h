// Uses what was opened in every way that the library offers, and watches what it promises.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <cria.h>

namespace cria::fuzz {

// text is encoded, said in a chat, fed and continued, unless there is no session. settings choose
// the sampling and flags.
void try_session(const cria_instance& cria, std::string_view text,
                 std::span<const uint8_t> settings);

// Two sessions of the model, both empty afterwards: a step with both gives the first what it gets
// alone.
void try_step(const cria_instance& cria, cria_session* other, std::string_view text);

// Whether bytes are UTF-8 without surrogates, overlong forms or values past U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace cria::fuzz
