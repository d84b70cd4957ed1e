// Texts that models put between what they say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cria::calls {

enum class Match : uint8_t { kNone, kPart, kWhole };

// Compares from the front. Blanks in the marker stand for any blanks, or none.
//   n_bytes  of kWhole: of the text
[[nodiscard]] Match match_marker(std::string_view marker, std::string_view text, size_t* n_bytes);

// The bytes that tools' names are made of where no quotes stand around them.
[[nodiscard]] bool is_name_byte(char c);

}  // namespace cria::calls
