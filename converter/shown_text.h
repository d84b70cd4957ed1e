// Text of a checkpoint as messages show it: it can reach a terminal, and can be of any length.
#pragma once

#include <string>
#include <string_view>

namespace cria::converter {

// text with a question mark for each control character (C0, C1, DEL), each character that turns the
// direction of writing or ends a line, and each byte that is no UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

// printable(text), cut behind some 80 bytes, which "..." then tells.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace cria::converter
