// Reserved bytes: of files and of the caller's structs they must be zero.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

template <size_t n>
[[nodiscard]] bool all_zero(const uint8_t (&bytes)[n]) {
  uint8_t all = 0;
  for (const uint8_t byte : bytes) all = static_cast<uint8_t>(all | byte);
  return all == 0;
}

}  // namespace cria
