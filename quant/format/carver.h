// Cuts a block of memory into parts. What plans memory and what uses it run the same code, so that
// they cannot disagree: without memory, a Carver only counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/align.h"

namespace cria {

// Sums and products stick at 2^63 instead of wrapping, so one test at the end catches them all.
// Plans are all sums: firmware is to have one copy of each function.
inline constexpr uint64_t kSaturated = uint64_t{1} << 63;

[[nodiscard, gnu::noinline]] constexpr uint64_t product(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kSaturated / b ? kSaturated : a * b;
}
[[nodiscard, gnu::noinline]] constexpr uint64_t sum(uint64_t a, uint64_t b) {
  return a >= kSaturated - (b < kSaturated ? b : kSaturated) ? kSaturated : a + b;
}
[[nodiscard, gnu::noinline]] constexpr uint64_t block(uint64_t bytes) {
  return bytes >= kSaturated - format::kAlignment ? kSaturated : aligned(bytes);
}

class Carver {
 public:
  Carver() = default;  // counts
  explicit Carver(uint8_t* memory) : memory_(memory) {}

  // The next part, of n values; null where this only counts. Parts begin at multiples of 64.
  template <typename T>
  T* take(uint64_t n) {
    return reinterpret_cast<T*>(take_bytes(product(n, sizeof(T))));
  }
  // Rows of so many values.
  template <typename T>
  T* take(uint32_t n_rows, uint32_t width) {
    return reinterpret_cast<T*>(take_rows(n_rows, width, sizeof(T)));
  }
  // Bytes of all parts so far.
  [[nodiscard]] uint64_t taken() const { return taken_; }

 private:
  uint8_t* take_bytes(uint64_t n_bytes);
  uint8_t* take_rows(uint32_t n_rows, uint32_t width, uint32_t value_bytes);

  uint8_t* memory_ = nullptr;
  uint64_t taken_ = 0;
};

}  // namespace cria
