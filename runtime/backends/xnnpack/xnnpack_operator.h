// One XNNPACK operator on a slice of a matrix's rows: y [n_rows][slice] = x * W^T. XNNPACK keeps
// packed weights in a "weights cache" of the program's; ours hands out a region while a slice is
// packed, and finds what was packed when an operator is made to run on it. So packed weights are
// apart from the operators, and any number of these shares them.
#pragma once

#include <xnnpack.h>

#include <cstddef>
#include <cstdint>

#include "quant/numbers/tile16.h"
#include "runtime/backends/xnnpack/xnnpack_memory.h"
#include "runtime/base/status.h"

namespace cria::xnnpack {

// Scales a slice may have: the trial creation shows XNNPACK this many valid ones, and it checks
// each before it asks for memory.
inline constexpr size_t kMostSliceScales = size_t{1} << 15;

// Entries of the quantization parameters after those of the last row, which they repeat. A kernel
// of m rows gets the rows that are left over by computing the last one again in place of those that
// are missing, each with a parameter of its own, so it reads up to m - 1 entries too far;
// XNN_EXTRA_QUANTIZATION_PARAMS (10) is short of the 13 that the 14-row AVX-512 kernel reads. No
// kernel of this version has more than 32 rows.
inline constexpr size_t kRepeatedParams = 31;
static_assert(kRepeatedParams >= XNN_EXTRA_QUANTIZATION_PARAMS);

[[nodiscard]] constexpr bool is_integer(const MatrixShape& m) {
  return cria::is_integer(m.number_format);
}

// Row-major weights of a slice, as XNNPACK takes them:
//   kInt4  codes [rows][padded_cols / 2], input 2b in the low nibble of byte b, code + 8;
//          scales [rows][padded_cols / group_size] bf16, positive and normal
//   kInt8  codes [rows][padded_cols] int8; scales [rows] f32
//   else   codes [rows][cols] f32
struct SliceSource {
  const void* codes;
  const void* scales;
};

// Bytes of row-major codes a row takes.
[[nodiscard]] size_t source_row_bytes(const MatrixShape& shape);

// Region bytes that n_rows rows of the matrix take.
struct SliceBytes {
  uint64_t packed;
  uint64_t object;  // the operator's
};
// Most bytes of an operator's object (2032 on x86-64).
inline constexpr size_t kMostObjectBytes = 4096;

// Found by a creation that stops before it reads a weight. kUnsupported when XNNPACK cannot do it
// on this CPU.
[[nodiscard]] Status measure_slice(const MatrixShape& shape, uint32_t n_rows, SliceBytes* n_bytes);

// Packs n_rows rows into a region; neither source nor object [kMostObjectBytes], 64-byte aligned,
// are needed afterwards. The packed bytes hold no addresses.
[[nodiscard]] Status pack_slice(const MatrixShape& shape, uint32_t n_rows,
                                const SliceSource& source, uint8_t* object, Region* region,
                                const void** packed);

// Creates an operator in region on weights that pack_slice packed for the same shape and rows. Its
// outputs go to rows of shape.rows floats.
[[nodiscard]] Status create_operator(const MatrixShape& shape, uint32_t n_rows, const void* packed,
                                     Region* region, xnn_operator_t* created);

// Input of operators. The kernels read up to XNN_EXTRA_BYTES past the last row.
struct OperatorInput {
  const float* x;                         // [n_rows][cols], float formats
  const int8_t* codes;                    // [n_rows][padded_cols], integer formats
  const xnn_quantization_params* params;  // [n_rows + kRepeatedParams], integer formats
  size_t n_rows;
};

// Prepares the operator for n_rows rows; needed when their number changes.
[[nodiscard]] Status reshape_operator(const MatrixShape& shape, xnn_operator_t op, size_t n_rows);
// Writes y, the slice's first column of rows of shape.rows floats. One thread an operator.
[[nodiscard]] Status run_operator(const MatrixShape& shape, xnn_operator_t op,
                                  const OperatorInput& input, float* y);

}  // namespace cria::xnnpack
