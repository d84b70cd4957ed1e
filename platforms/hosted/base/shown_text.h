// Text of files, names and checkpoints as messages show it: it can reach a terminal, and can be of
// any length. The text that a model writes goes through TextStream instead.
#pragma once

#include <string>
#include <string_view>

namespace cria::hosted {

// text through a ControlFilter that keeps joiners and marks; lines and tabs stay.
[[nodiscard]] std::string without_controls(std::string_view text);

// One line: text with a question mark for all that ControlFilter replaces, for what is invisible,
// and for each newline and tab.
[[nodiscard]] std::string printable(std::string_view text);

// printable(text), cut after about 80 bytes, which "..." then tells.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace cria::hosted
