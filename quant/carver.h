// Cuts a block of memory into parts. What plans memory and what uses it run the same code, so that
// they cannot disagree: without memory, a Carver only counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/align.h"

namespace cria {

// Sums and products stick at 2^63 instead of wrapping, so one test at the end catches them all.
inline constexpr uint64_t kSaturated = uint64_t{1} << 63;

[[nodiscard]] constexpr uint64_t product(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kSaturated / b ? kSaturated : a * b;
}
[[nodiscard]] constexpr uint64_t sum(uint64_t a, uint64_t b) {
  return a >= kSaturated - (b < kSaturated ? b : kSaturated) ? kSaturated : a + b;
}
[[nodiscard]] constexpr uint64_t block(uint64_t bytes) {
  return bytes >= kSaturated - format::kAlignment ? kSaturated : aligned(bytes);
}

class Carver {
 public:
  Carver() = default;  // counts
  explicit Carver(uint8_t* memory) : memory_(memory) {}

  // The next part, of n values; null where this only counts. Parts begin at multiples of 64.
  template <typename T>
  T* take(uint64_t n) {
    uint8_t* const part = memory_ == nullptr ? nullptr : memory_ + taken_;
    taken_ = sum(taken_, block(product(n, sizeof(T))));
    return reinterpret_cast<T*>(part);
  }
  // Bytes of all parts so far.
  [[nodiscard]] uint64_t taken() const { return taken_; }

 private:
  uint8_t* memory_ = nullptr;
  uint64_t taken_ = 0;
};

}  // namespace cria
