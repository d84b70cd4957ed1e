// White space, which added tokens swallow and chat templates trim.
#pragma once

#include <cstdint>

namespace cria {

// Unicode's property White_Space.
[[nodiscard]] constexpr bool is_white_space(uint32_t code) {
  switch (code) {
    case ' ':
    case 0x0085:
    case 0x00a0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000:
      return true;
    default:
      return (code >= '\t' && code <= '\r') || (code >= 0x2000 && code <= 0x200a);
  }
}

// What scripting languages strip from texts: white space and the separators U+001C to U+001F, which
// Unicode's property does not have.
[[nodiscard]] constexpr bool is_stripped(uint32_t code) {
  return is_white_space(code) || (code >= 0x1c && code <= 0x1f);
}

}  // namespace cria
