#include "platforms/hosted/base/text_width.h"

#include <algorithm>

namespace cria::hosted {
namespace {

constexpr uint32_t kJoiner = 0x200d;
constexpr uint32_t kEmojiStyle = 0xfe0f;
constexpr uint32_t kFirstSkinTone = 0x1f3fb;
constexpr uint32_t kLastSkinTone = 0x1f3ff;

uint32_t columns_of_character(uint32_t code) {
  const std::span<const WidthRange> ranges = width_ranges();
  const auto range =
      std::upper_bound(ranges.begin(), ranges.end(), code,
                       [](uint32_t wanted, const WidthRange& each) { return wanted <= each.last; });
  return range != ranges.end() && code >= range->first ? range->columns : 1;
}

// Whether a character can be a part of an emoji that a joiner makes of several.
bool is_symbol(uint32_t code) {
  constexpr uint32_t kFirstArrow = 0x2190;
  constexpr uint32_t kLastSymbol = 0x2bff;
  constexpr uint32_t kFirstEmoji = 0x1f000;
  return (code >= kFirstArrow && code <= kLastSymbol) || code >= kFirstEmoji;
}

// Adds up the columns of characters that follow each other.
class Widths {
 public:
  // The columns that this one adds.
  uint32_t next(uint32_t code) {
    const uint32_t before = last_;
    const bool joins = is_joined_ && is_symbol(code);
    is_joined_ = code == kJoiner && is_symbol(base_);
    if (code == kEmojiStyle && before == 1) {
      last_ = 2;
      return 1;
    }
    const bool is_tone = code >= kFirstSkinTone && code <= kLastSkinTone && is_symbol(base_);
    const uint32_t columns = columns_of_character(code);
    if (columns == 0 || is_tone || joins) return 0;
    base_ = code;
    last_ = columns;
    return columns;
  }

 private:
  uint32_t base_ = 0;  // the last character that took columns
  uint32_t last_ = 0;  // how many; 0: none yet
  bool is_joined_ = false;
};

}  // namespace

uint32_t next_character(std::string_view text, size_t* at) {
  constexpr uint32_t kPayload = 0x3f;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte((*at)++);
  if (first < 0x80) return first;
  const size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() - *at < n - 1) return kReplacement;
  uint32_t code = first & (0xffU >> (n + 1));
  for (size_t i = 0; i + 1 < n; ++i) {
    if ((byte(*at + i) & 0xc0) != 0x80) return kReplacement;
    code = code << 6 | (byte(*at + i) & kPayload);
  }
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[n] || code > 0x10ffff || is_surrogate) return kReplacement;
  *at += n - 1;
  return code;
}

void append_character(std::string* text, uint32_t code) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = kReplacement;
  const auto put = [text](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  const auto put_rest = [put, code](uint32_t shift) { put(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put_rest(6);
  } else {
    put(0xf0 | code >> 18);
    put_rest(12);
    put_rest(6);
  }
  put_rest(0);
}

size_t columns_of(std::string_view text) {
  Widths widths;
  size_t columns = 0;
  for (size_t at = 0; at < text.size();) columns += widths.next(next_character(text, &at));
  return columns;
}

size_t bytes_within(std::string_view text, size_t columns) {
  Widths widths;
  size_t used = 0;
  size_t end = 0;
  for (size_t at = 0; at < text.size(); end = at) {
    used += widths.next(next_character(text, &at));
    if (used > columns) return end;
  }
  return text.size();
}

}  // namespace cria::hosted
