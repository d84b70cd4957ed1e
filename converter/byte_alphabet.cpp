#include "converter/byte_alphabet.h"

#include <array>
#include <cstdint>

namespace cria::converter {
namespace {

constexpr uint32_t kByteValues = 256;
constexpr uint32_t kAlphabetEnd = 324;  // 256 and the 68 bytes that are not printable

// Bytes that stand for themselves: the printable characters of Latin-1 without the two spaces.
constexpr bool is_itself(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
         (byte >= 0xae && byte <= 0xff);
}

// The byte of each character of the alphabet; -1 for characters that are not in it. The bytes that
// do not stand for themselves are U+0100 and on, in order.
constexpr std::array<int16_t, kAlphabetEnd> make_alphabet() {
  std::array<int16_t, kAlphabetEnd> bytes = {};
  bytes.fill(-1);
  uint32_t next = kByteValues;
  for (uint32_t byte = 0; byte < kByteValues; ++byte) {
    bytes[is_itself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<int16_t, kAlphabetEnd> kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  constexpr uint32_t kLeadMask = 0xe0;
  constexpr uint32_t kTwoByteLead = 0xc0;
  constexpr uint32_t kLeadPayload = 0x1f;
  constexpr uint32_t kContinuationPayload = 0x3f;
  constexpr uint32_t kPayloadBits = 6;
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t code = static_cast<uint8_t>(text[i]);
    // Every character of the alphabet has one byte or two.
    if (code > 0x7f) {
      if ((code & kLeadMask) != kTwoByteLead || i + 1 == text.size()) return std::nullopt;
      const uint32_t continuation = static_cast<uint8_t>(text[++i]);
      code = (code & kLeadPayload) << kPayloadBits | (continuation & kContinuationPayload);
    }
    if (code >= kAlphabetEnd || kAlphabet[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet[code]));
  }
  return bytes;
}

}  // namespace cria::converter
