// Rounds rows of weights to codes so that what a layer puts out changes least (GPTQ, Frantar et al.
// 2022): each column's error is made up for by the columns that are still to be rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "converter/calibration/panel_product.h"
#include "platforms/hosted/base/thread_pool.h"
#include "quant/numbers/quantize.h"
#include "quant/numbers/tile16.h"

namespace cria::converter {

// What rows that share inputs are rounded by: H, the sums of products of the inputs, damped.
struct RoundingBasis {
  PanelMatrix hessian;          // all of it
  PanelMatrix turned_factor;    // of it in order (converter/calibration/symmetric_factor.h)
  std::vector<uint32_t> order;  // columns, that with the largest diagonal first
};

//   sums         [cols][cols], lower triangle, of add_products
//   damping      share of the diagonal's mean that is added to the diagonal; grows where f32
//                wants it
//   is_factored  false leaves turned_factor empty, which feedback and TargetShift ask for
[[nodiscard]] RoundingBasis make_basis(hosted::ThreadPool* pool, const std::vector<float>& sums,
                                       size_t cols, float damping, bool is_factored = true);

// How much is done.
struct RoundingSteps {
  bool feedback;      // GPTQ's; else each weight to its nearest code
  uint32_t n_sweeps;  // of improving scale by scale and code by code
};

struct RoundedRows {
  std::vector<int8_t> codes;      // [rows][padded_cols]
  std::vector<uint16_t> scales;   // [rows][padded_cols / group_size], bf16
  std::vector<float> row_scales;  // [rows], of int8, which has no groups
};

// Rows by themselves: the result of one does not depend on the others, nor on threads. Scales of
// groups are fixed before columns are rounded, and fitted to the codes afterwards.
//   shape    of int4 or int4nl; its rows are those of targets
//   targets  [shape.rows][shape.cols]
[[nodiscard]] RoundedRows round_rows(hosted::ThreadPool* pool, const RoundingBasis& basis,
                                     const MatrixShape& shape, ScaleSigns signs,
                                     const float* targets, const RoundingSteps& steps);

// The rows' values: [shape.rows][shape.cols].
void expand_rows(const MatrixShape& shape, const RoundedRows& rounded, float* values);

}  // namespace cria::converter
