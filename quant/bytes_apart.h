// Two-byte values with their low bytes apart from their high ones: the high byte of a bf16 scale is
// its sign and most of its exponent, of which few differ, the low one is nearly random. zstd, which
// counts bytes, sees neither while they alternate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

// values [n_bytes], n_bytes even -> apart [n_bytes]: n_bytes / 2 low bytes, then as many high ones.
// The arrays do not overlap, here and below.
inline void take_bytes_apart(const uint8_t* __restrict values, size_t n_bytes,
                             uint8_t* __restrict apart) {
  const size_t n = n_bytes / 2;
  for (size_t i = 0; i < n; ++i) {
    apart[i] = values[2 * i];
    apart[n + i] = values[2 * i + 1];
  }
}

inline void put_bytes_together(const uint8_t* __restrict apart, size_t n_bytes,
                               uint8_t* __restrict values) {
  const size_t n = n_bytes / 2;
  for (size_t i = 0; i < n; ++i) {
    values[2 * i] = apart[i];
    values[2 * i + 1] = apart[n + i];
  }
}

}  // namespace cria
