// Text and numbers for the console, and numbers from it; no formatted output, which would need a
// heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cria::cortex_m {

void print(std::string_view text);
void print(uint64_t number);
// Any mix of the two, in order.
template <typename First, typename Second, typename... Rest>
void print(const First& first, const Second& second, const Rest&... rest) {
  print(first);
  print(second, rest...);
}

// Prints a line and ends the program.
[[noreturn]] void fail(std::string_view what);

// Reads a line without its end; what does not fit is dropped. False at the end of the input.
[[nodiscard]] bool read_line(std::span<char> line, std::string_view* text);

// Takes a word off the front of text, up to a blank.
[[nodiscard]] std::string_view take_word(std::string_view* text);
// Decimal, or hexadecimal after 0x; 0 when text is no number.
[[nodiscard]] uint64_t number_of(std::string_view text);

}  // namespace cria::cortex_m
