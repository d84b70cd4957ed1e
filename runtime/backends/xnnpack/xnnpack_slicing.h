// Into which slices a matrix is cut, and the memory they take.
#pragma once

#include <cstdint>

#include "quant/tile16.h"
#include "runtime/base/status.h"

namespace cria::xnnpack {

// All slices have rows rows, a multiple of 16, but the last, which has the rows there are. Follows
// from the shape alone.
struct Slicing {
  uint32_t n_slices;
  uint32_t rows;
  uint32_t last_rows;
};
[[nodiscard]] Slicing slice_matrix(const MatrixShape& shape);

// Bytes of the arena for a matrix: records, operators, packed weights. initialize() came before.
[[nodiscard]] Status measure_matrix(const MatrixShape& shape, uint64_t* n_bytes);

}  // namespace cria::xnnpack
