#include "platforms/hosted/base/print_format.h"

#include <cstdarg>
#include <cstdio>

#include "platforms/hosted/base/text_width.h"

namespace cria::hosted {
namespace {

constexpr double kMega = 1e6;

}  // namespace

std::string text_of(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string grouped_digits(uint64_t value) {
  constexpr size_t kGroup = 3;
  std::string digits = std::to_string(value);
  for (size_t from_end = kGroup; from_end < digits.size(); from_end += kGroup + 1) {
    digits.insert(digits.size() - from_end, 1, ',');
  }
  return digits;
}

std::string megabytes(uint64_t n_bytes) {
  return text_of("%.1f MB", static_cast<double>(n_bytes) / kMega);
}

std::string short_count(uint64_t value) {
  constexpr double kThousand = 1e3;
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T"};
  double scaled = static_cast<double>(value);
  size_t unit = 0;
  while (scaled >= kThousand && unit + 1 < std::size(kUnits)) {
    scaled /= kThousand;
    ++unit;
  }
  if (unit == 0) return std::to_string(value);
  return text_of("%.*f%s", scaled < 10.0 ? 2 : scaled < 100.0 ? 1 : 0, scaled, kUnits[unit]);
}

std::string wrap_words(const std::string& text, size_t width, size_t indent) {
  std::string out;
  size_t column = 0;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(begin, end - begin);
    const size_t length = columns_of(word);
    if (column > 0 && column + 1 + length > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += length;
    begin = end + 1;
  }
  return out;
}

}  // namespace cria::hosted
