// The three classes of characters that pre-tokenizers tell apart.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

// Unicode 15.0: general categories L* and N*, and the property White_Space, as \p{L}, \p{N} and \s
// mean in regular expressions. No character is in two of them.
enum class CharClass : uint32_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

// Cost: constant for ASCII, else a binary search.
[[nodiscard]] CharClass char_class(uint32_t code);

// Generated table (unicode_tables.cpp). An entry starts a run of characters of one class and holds
// first character << kClassBits | class; ascending, from U+0000; runs end where the next starts.
inline constexpr uint32_t kClassBits = 2;
inline constexpr uint32_t kClassMask = 0x3;
extern const uint32_t kClassRuns[];
extern const size_t kClassRunCount;

}  // namespace cria
