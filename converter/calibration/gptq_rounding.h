// Rounds rows of weights to codes so that what a layer puts out changes least (GPTQ, Frantar et al.
// 2022): each column's error is made up for by the columns that are still to be rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "converter/calibration/code_book.h"
#include "converter/calibration/symmetric_factor.h"
#include "platforms/hosted/base/thread_pool.h"

namespace cria::converter {

// What rows that share inputs are rounded by: H, the sums of products of the inputs, damped.
struct RoundingBasis {
  SquareMatrix hessian;         // all of it
  SquareMatrix factor;          // inverse_factor of it in order
  std::vector<uint32_t> order;  // columns, that with the largest diagonal first
};

// sums     [cols][cols], lower triangle, of add_products
// damping  share of the diagonal's mean that is added to the diagonal; grows where f32 wants it
[[nodiscard]] RoundingBasis make_basis(hosted::ThreadPool* pool, const float* sums, size_t cols,
                                       float damping);

// How much is done.
struct RoundingSteps {
  bool feedback;      // GPTQ's; else each weight to its nearest code
  uint32_t n_sweeps;  // of improving code by code and scale by scale
};

struct RoundedRows {
  std::vector<int8_t> codes;     // [rows][padded]
  std::vector<uint16_t> scales;  // [rows][padded / group], bf16
};

// Rows by themselves: the result of one does not depend on the others, nor on threads. Scales of
// groups are fixed before columns are rounded, and fitted to the codes afterwards.
//   targets     [n_rows][cols]
//   group_size  divides padded, which is cols rounded up to it
[[nodiscard]] RoundedRows round_rows(hosted::ThreadPool* pool, const RoundingBasis& basis,
                                     const CodeBook& book, const float* targets, size_t n_rows,
                                     size_t cols, size_t group_size, const RoundingSteps& steps);

// The rows' values: [n_rows][cols].
void expand_rows(const CodeBook& book, const RoundedRows& rounded, size_t n_rows, size_t cols,
                 size_t group_size, float* values);

}  // namespace cria::converter
