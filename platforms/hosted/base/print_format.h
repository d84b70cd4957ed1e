// Small formatters for text that people read.
#pragma once

#include <cstdint>
#include <string>

namespace cria::hosted {

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string text_of(const char* format, ...);

// "1,234,567"
std::string grouped_digits(uint64_t value);

// "12.3 MB", in units of 10^6 bytes.
std::string megabytes(uint64_t n_bytes);

// "820", "3.8 M", "1.24 G": three digits, for counts of parameters.
std::string short_count(uint64_t value);

// Breaks text at spaces so that no line is wider than so many columns of a terminal; lines but the
// first begin with indent spaces. A wider word stands alone.
std::string wrap_words(const std::string& text, size_t width, size_t indent);

}  // namespace cria::hosted
