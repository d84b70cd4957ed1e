#include "platforms/hosted/base/control_filter.h"

#include <algorithm>
#include <iterator>

namespace cria::hosted {
namespace {

constexpr char kInstead = '?';
constexpr uint8_t kFirstPrintable = 0x20;
constexpr uint8_t kDelete = 0x7f;

// Bytes of the UTF-8 character that starts with this one; 0: none does.
uint8_t character_bytes(uint8_t first) {
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

// Whether second may follow first: no longer form than needed, no surrogates, no more than
// U+10FFFF.
bool may_follow(uint8_t first, uint8_t second) {
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  return second >= low && second <= high;
}

// Code points that are not shown. Those that control the terminal or the direction of text never
// are.
struct Hidden {
  uint32_t first;
  uint32_t last;
  bool always;
};
constexpr Hidden kHidden[] = {{0x80, 0x9f, true},     {0x200b, 0x200f, false},
                              {0x2028, 0x202e, true}, {0x2060, 0x2065, false},
                              {0x2066, 0x2069, true}, {0x206a, 0x206f, false},
                              {0xfeff, 0xfeff, false}};

// The code point of a whole character of two or three bytes; 0 for four, of which none is hidden.
uint32_t code_point(const char* bytes, size_t n_bytes) {
  constexpr uint32_t kPayload = 0x3f;
  const auto at = [bytes](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (n_bytes == 2) return (at(0) & 0x1fU) << 6 | (at(1) & kPayload);
  if (n_bytes == 3) return (at(0) & 0x0fU) << 12 | (at(1) & kPayload) << 6 | (at(2) & kPayload);
  return 0;
}

bool is_hidden(uint32_t code, Invisible invisible) {
  return std::any_of(std::begin(kHidden), std::end(kHidden), [&](const Hidden& range) {
    return code >= range.first && code <= range.last &&
           (range.always || invisible == Invisible::kReplaced);
  });
}

}  // namespace

size_t ControlFilter::start(uint8_t byte, char* out) {
  if (byte < kDelete) {
    const bool is_shown = byte >= kFirstPrintable || byte == '\n' || byte == '\t';
    *out = is_shown ? static_cast<char>(byte) : kInstead;
    return 1;
  }
  n_wanted_ = character_bytes(byte);
  if (n_wanted_ == 0) {
    *out = kInstead;
    return 1;
  }
  held_[0] = static_cast<char>(byte);
  n_held_ = 1;
  return 0;
}

size_t ControlFilter::feed(char byte, char* out) {
  const auto value = static_cast<uint8_t>(byte);
  if (n_wanted_ == 0) return start(value, out);
  const auto first = static_cast<uint8_t>(held_[0]);
  const bool goes_on =
      n_held_ == 1 ? may_follow(first, value) : (value & 0xc0) == 0x80;  // 0x80 to 0xbf
  if (!goes_on) {
    n_wanted_ = 0;
    *out = kInstead;
    return 1 + start(value, out + 1);
  }
  held_[n_held_++] = byte;
  if (n_held_ < n_wanted_) return 0;
  n_wanted_ = 0;
  if (is_hidden(code_point(held_, n_held_), invisible_)) {
    *out = kInstead;
    return 1;
  }
  std::copy_n(held_, n_held_, out);
  return n_held_;
}

size_t ControlFilter::finish(char* out) {
  if (n_wanted_ == 0) return 0;
  n_wanted_ = 0;
  *out = kInstead;
  return 1;
}

}  // namespace cria::hosted
