#include "platforms/cortex_m/console.h"

#include "platforms/cortex_m/semihosting.h"

namespace cria::cortex_m {
namespace {

constexpr uint32_t kFailure = 1;
constexpr size_t kMostDigits = 20;  // of 64 bits

uint64_t digit_of(char c, uint64_t base) {
  const char lower = static_cast<char>(c | 0x20);
  const bool is_letter = lower >= 'a' && lower <= 'f';
  const bool is_digit = c >= '0' && c <= '9';
  if (!is_digit && !is_letter) return base;
  return static_cast<uint64_t>(is_digit ? c - '0' : lower - 'a' + 10);
}

}  // namespace

void print(std::string_view text) { write_console(text.data(), text.size()); }

void print(uint64_t number) {
  char digits[kMostDigits];
  size_t first = kMostDigits;
  do {
    digits[--first] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  write_console(digits + first, kMostDigits - first);
}

void fail(std::string_view what) {
  print("error: ", what, "\n");
  exit_program(kFailure);
}

bool read_line(std::span<char> line, std::string_view* text) {
  size_t n = 0;
  for (char c = 0; c != '\n';) {
    if (!read_console(&c)) return false;
    if (c != '\n' && c != '\r' && n < line.size()) line[n++] = c;
  }
  *text = {line.data(), n};
  return true;
}

std::string_view take_word(std::string_view* text) {
  const size_t end = text->find(' ');
  const size_t n = end == std::string_view::npos ? text->size() : end;
  const std::string_view word(text->data(), n);
  text->remove_prefix(n == text->size() ? n : n + 1);
  return word;
}

uint64_t number_of(std::string_view text) {
  const bool is_hex = text.starts_with("0x");
  const uint64_t base = is_hex ? 16 : 10;
  if (is_hex) text.remove_prefix(2);
  uint64_t number = 0;
  for (const char c : text) {
    const uint64_t digit = digit_of(c, base);
    if (digit >= base) return 0;
    number = number * base + digit;
  }
  return number;
}

}  // namespace cria::cortex_m
