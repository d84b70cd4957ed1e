// UTF-8, one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

inline constexpr uint32_t kReplacementCharacter = 0xfffd;
inline constexpr size_t kReplacementBytes = 3;  // of U+FFFD in UTF-8
inline constexpr char kReplacementText[] = "\xEF\xBF\xBD";
// What SentencePiece writes for a space.
inline constexpr uint32_t kSpaceMark = 0x2581;
inline constexpr size_t kSpaceMarkBytes = 3;
inline constexpr char kSpaceMarkText[] = "\xE2\x96\x81";

[[nodiscard]] constexpr bool is_space_or_mark(uint32_t code) {
  return code == ' ' || code == kSpaceMark;
}

struct Utf8Char {
  uint32_t code;  // U+FFFD for bytes that are no character
  uint32_t n_bytes;
  bool complete;  // false: the bytes end before the character does
};

// The first character of text; n_bytes >= 1. Bytes that are no character are taken as few as can
// start none, so that what follows them is read as it stands. Overlong forms, surrogates and codes
// past U+10FFFF are no characters.
[[nodiscard]] constexpr Utf8Char decode_utf8(const char* text, size_t n_bytes) {
  constexpr uint32_t kContinuationMask = 0xc0;
  constexpr uint32_t kContinuation = 0x80;
  constexpr uint32_t kPayloadMask = 0x3f;
  constexpr uint32_t kPayloadBits = 6;
  const auto byte = [text](size_t i) {
    return static_cast<uint32_t>(static_cast<uint8_t>(text[i]));
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  uint32_t length = 0;
  uint32_t lowest = kContinuation;  // bounds of the second byte
  uint32_t highest = 0xbf;
  uint32_t code = 0;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
    code = lead & 0x1f;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    code = lead & 0x0f;
    if (lead == 0xe0) lowest = 0xa0;
    if (lead == 0xed) highest = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    code = lead & 0x07;
    if (lead == 0xf0) lowest = 0x90;
    if (lead == 0xf4) highest = 0x8f;
  } else {
    return {kReplacementCharacter, 1, true};
  }
  for (uint32_t i = 1; i < length; ++i) {
    if (i == n_bytes) return {kReplacementCharacter, i, false};
    const uint32_t next = byte(i);
    const bool fits =
        i == 1 ? next >= lowest && next <= highest : (next & kContinuationMask) == kContinuation;
    if (!fits) return {kReplacementCharacter, i, true};
    code = code << kPayloadBits | (next & kPayloadMask);
  }
  return {code, length, true};
}

}  // namespace cria
