// How many columns of a terminal text takes, and its characters one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cria::hosted {

inline constexpr uint32_t kReplacement = 0xfffd;

// The character at text[*at], which moves after it; kReplacement for a byte that is none's.
uint32_t next_character(std::string_view text, size_t* at);
// Appends a character as UTF-8; kReplacement for what is no character.
void append_character(std::string* text, uint32_t code);

// Characters of another width than one column, in order.
struct WidthRange {
  uint32_t first;
  uint32_t last;
  uint32_t columns;  // 0 or 2
};
std::span<const WidthRange> width_ranges();

// Columns of text: 2 for East Asian wide characters and emoji, 0 for marks that combine and for
// what joins; an emoji with modifiers, or of several that U+200D joins, counts once, and U+FE0F
// makes an emoji of the character before it. A byte that is not UTF-8 counts 1.
size_t columns_of(std::string_view text);

// Bytes of the longest beginning of text, in whole characters, that takes at most so many columns.
size_t bytes_within(std::string_view text, size_t columns);

}  // namespace cria::hosted
