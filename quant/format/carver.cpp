#include "quant/format/carver.h"

namespace cria {

// Blocks carve their scratch in every layer of every step, so sum, product and block stand here
// without calls and divisions.
uint8_t* Carver::take_bytes(uint64_t n_bytes) {
  uint8_t* const part = memory_ == nullptr ? nullptr : memory_ + taken_;
  const bool fits = n_bytes < kSaturated - format::kAlignment;
  const uint64_t end = fits ? taken_ + aligned(n_bytes) : kSaturated;  // below 2^64
  taken_ = end < kSaturated ? end : kSaturated;
  return part;
}

uint8_t* Carver::take_rows(uint32_t n_rows, uint32_t width, uint32_t value_bytes) {
  uint64_t n_bytes = 0;
  const bool wraps = __builtin_mul_overflow(uint64_t{n_rows} * width, value_bytes, &n_bytes);
  return take_bytes(wraps ? kSaturated : n_bytes);
}

}  // namespace cria
