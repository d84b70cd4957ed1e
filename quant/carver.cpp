#include "quant/carver.h"

namespace cria {

uint8_t* Carver::take_bytes(uint64_t n_bytes) {
  uint8_t* const part = memory_ == nullptr ? nullptr : memory_ + taken_;
  taken_ = sum(taken_, block(n_bytes));
  return part;
}

uint8_t* Carver::take_rows(uint32_t n_rows, uint32_t width, uint32_t value_bytes) {
  return take_bytes(product(uint64_t{n_rows} * width, value_bytes));
}

}  // namespace cria
