#include "converter/shown_text.h"

#include <cstdint>

namespace cria::converter {
namespace {

constexpr size_t kShownBytes = 80;
constexpr uint8_t kContinuationMask = 0xc0;
constexpr uint8_t kContinuation = 0x80;

// A character and the bytes it takes; none for bytes that are no character.
struct Character {
  uint32_t code;
  size_t bytes;
};
constexpr Character kNone = {0, 0};

Character first_character(std::string_view text) {
  // What the first byte of n bytes has in common with others of its kind, and the least code that
  // needs n bytes.
  struct Length {
    uint8_t mask;
    uint8_t lead;
    uint32_t least;
  };
  constexpr Length kLengths[] = {
      {0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
  constexpr uint32_t kPayloadBits = 6;
  constexpr uint32_t kFirstSurrogate = 0xd800;
  constexpr uint32_t kLastSurrogate = 0xdfff;
  constexpr uint32_t kLastCode = 0x10ffff;
  size_t n_bytes = 0;
  for (const Length& length : kLengths) {
    ++n_bytes;
    const auto lead = static_cast<uint8_t>(text[0]);
    if ((lead & length.mask) != length.lead) continue;
    if (n_bytes > text.size()) return kNone;
    uint32_t code = lead & static_cast<uint8_t>(~length.mask);
    for (size_t i = 1; i < n_bytes; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      if ((byte & kContinuationMask) != kContinuation) return kNone;
      code = code << kPayloadBits | (byte & static_cast<uint8_t>(~kContinuationMask));
    }
    const bool is_surrogate = code >= kFirstSurrogate && code <= kLastSurrogate;
    return code < length.least || code > kLastCode || is_surrogate ? kNone
                                                                   : Character{code, n_bytes};
  }
  return kNone;
}

bool is_printable(uint32_t code) {
  struct Range {
    uint32_t first;
    uint32_t last;
  };
  // C0; DEL and C1; direction marks, line and paragraph separators, embeddings; isolates; the
  // byte-order mark.
  constexpr Range kHidden[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x200b, 0x200f},
                               {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}};
  for (const Range& range : kHidden) {
    if (code >= range.first && code <= range.last) return false;
  }
  return true;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Character character = first_character(text);
    const size_t n_bytes = character.bytes == 0 ? 1 : character.bytes;
    if (character.bytes != 0 && is_printable(character.code)) {
      result += text.substr(0, n_bytes);
    } else {
      result += '?';
    }
    text.remove_prefix(n_bytes);
  }
  return result;
}

std::string shown(std::string_view text) {
  if (text.size() <= kShownBytes) return printable(text);
  size_t end = kShownBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & kContinuationMask) == kContinuation) --end;
  return printable(text.substr(0, end)) + "...";
}

}  // namespace cria::converter
