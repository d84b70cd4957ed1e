// Uses an open session in every way that the library offers, and watches what it promises.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <cria.h>

namespace cria::fuzz {

// text is encoded, said in a chat, fed and continued. settings choose the sampling and flags.
void try_session(cria_session* session, std::string_view text, std::span<const uint8_t> settings);

// Whether bytes are UTF-8 without surrogates, overlong forms or values past U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace cria::fuzz
