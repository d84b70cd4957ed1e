// A set of byte values, as fast to ask as an array of 256 and an eighth of its size.
#pragma once

#include <cstdint>

namespace cria {

// Trivially copyable; {} is the empty set.
struct ByteSet {
  static constexpr uint32_t kBitsPerWord = 32;

  void add(uint8_t byte) { words[byte / kBitsPerWord] |= uint32_t{1} << byte % kBitsPerWord; }
  [[nodiscard]] bool has(uint8_t byte) const {
    return (words[byte / kBitsPerWord] >> byte % kBitsPerWord & 1) != 0;
  }

  uint32_t words[256 / kBitsPerWord];
};

}  // namespace cria
