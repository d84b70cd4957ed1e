// The value of an enumeration that a caller in C filled, which may be any: as an enumeration it
// could not even be looked at.
#pragma once

#include <cstdint>
#include <cstring>

namespace cria {

// Enumerations are as wide as the target's C makes them.
template <typename Enum>
[[nodiscard]] uint32_t enum_bits(const Enum& value) {
  static_assert(sizeof value <= sizeof(uint32_t));
  uint32_t bits = 0;  // every target is little-endian
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

}  // namespace cria
