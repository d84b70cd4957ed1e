// Into which slices a matrix is cut, and the memory they take.
#pragma once

#include <cstdint>

#include "quant/numbers/tile16.h"
#include "runtime/base/status.h"

namespace cria::xnnpack {

// All slices have rows rows, a multiple of 16, but the last, which has the rows there are. Follows
// only from the shape.
struct Slicing {
  uint32_t n_slices;
  uint32_t rows;
  uint32_t last_rows;
};
[[nodiscard]] Slicing slice_matrix(const MatrixShape& shape);

[[nodiscard]] constexpr uint32_t rows_of_slice(const Slicing& slicing, uint32_t slice) {
  return slice + 1 < slicing.n_slices ? slicing.rows : slicing.last_rows;
}

// Bytes for a matrix: records and packed weights in the model, its operators' objects in a
// workspace. initialize() came before.
struct MatrixBytes {
  uint64_t packed;
  uint64_t objects;
};
[[nodiscard]] Status measure_matrix(const MatrixShape& shape, MatrixBytes* n_bytes);

}  // namespace cria::xnnpack
