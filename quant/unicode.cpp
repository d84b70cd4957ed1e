#include "quant/unicode.h"

namespace cria {
namespace {

CharClass ascii_class(uint32_t code) {
  if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z')) return CharClass::kLetter;
  if (code >= '0' && code <= '9') return CharClass::kNumber;
  if (code == ' ' || (code >= '\t' && code <= '\r')) return CharClass::kSpace;
  return CharClass::kOther;
}

}  // namespace

CharClass char_class(uint32_t code) {
  constexpr uint32_t kFirstNonAscii = 0x80;
  constexpr uint32_t kLastCode = 0x10ffff;
  if (code < kFirstNonAscii) return ascii_class(code);
  if (code > kLastCode) return CharClass::kOther;
  // The last run that starts at or before the character.
  size_t low = 0;
  size_t high = kClassRunCount;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (kClassRuns[middle] >> kClassBits <= code) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return static_cast<CharClass>(kClassRuns[low] & kClassMask);
}

}  // namespace cria
