// Everything in the file and in memory begins at multiples of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/format.h"

namespace cria {

// The smallest multiple of format::kAlignment that is not below n_bytes, at most 2^63 of them.
[[nodiscard]] constexpr uint64_t aligned(uint64_t n_bytes) {
  return (n_bytes + format::kAlignment - 1) / format::kAlignment * format::kAlignment;
}

[[nodiscard]] inline bool is_aligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % format::kAlignment == 0;
}

}  // namespace cria
