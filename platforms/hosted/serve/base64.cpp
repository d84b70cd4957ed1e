#include "platforms/hosted/serve/base64.h"

#include <cstddef>

namespace cria::hosted {

std::string base64_of(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr size_t kBytes = 3;  // of a group, which are four digits of six bits
  constexpr uint32_t kDigitMask = 0x3f;
  std::string text;
  text.reserve((bytes.size() + kBytes - 1) / kBytes * 4);
  for (size_t i = 0; i < bytes.size(); i += kBytes) {
    uint32_t group = 0;
    for (size_t k = 0; k < kBytes; ++k) {
      group = group << 8 | (i + k < bytes.size() ? uint32_t{bytes[i + k]} : 0);
    }
    for (size_t k = 0; k < kBytes + 1; ++k) {
      const bool is_padding = i + k > bytes.size();
      text += is_padding ? '=' : kDigits[group >> (18 - 6 * k) & kDigitMask];
    }
  }
  return text;
}

}  // namespace cria::hosted
