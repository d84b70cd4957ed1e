#include "converter/calibration/gptq_rounding.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "converter/calibration/row_rounding.h"
#include "converter/calibration/symmetric_factor.h"
#include "platforms/hosted/base/shared_loop.h"
#include "quant/numbers/float16.h"

namespace cria::converter {
namespace {

constexpr float kMostDamping = 1e3f;

// What is added to the diagonal. Inputs that are all zero leave nothing to weigh.
float added_to_diagonal(float mean, float damping) { return mean > 0 ? mean * damping : 1.0f; }

// Fills basis->turned_factor; gives what the diagonal was raised by for it.
float find_factor(hosted::ThreadPool* pool, const std::vector<float>& sums, size_t cols, float mean,
                  float damping, RoundingBasis* basis) {
  std::vector<float> ordered(cols * cols);
  for (;; damping *= 2) {
    const float added = added_to_diagonal(mean, damping);
    for (size_t i = 0; i < cols; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        const size_t a = std::max(basis->order[i], basis->order[j]);
        const size_t b = std::min(basis->order[i], basis->order[j]);
        ordered[i * cols + j] = sums[a * cols + b] + (i == j ? added : 0.0f);
      }
    }
    if (inverse_factor(pool, ordered, cols, &basis->turned_factor)) return added;
    if (damping <= kMostDamping) continue;
    // No numbers that could be weighed: every column for itself.
    basis->turned_factor = PanelMatrix(cols, cols, PanelFormat::kF32);
    for (size_t i = 0; i < cols; ++i) basis->turned_factor.at(i, i) = 1;
    return added;
  }
}

}  // namespace

RoundingBasis make_basis(hosted::ThreadPool* pool, const std::vector<float>& sums, size_t cols,
                         float damping, bool is_factored) {
  RoundingBasis basis;
  double trace = 0;
  for (size_t i = 0; i < cols; ++i) trace += static_cast<double>(sums[i * cols + i]);
  const auto mean = static_cast<float>(trace / static_cast<double>(cols));
  basis.order.resize(cols);
  std::iota(basis.order.begin(), basis.order.end(), 0u);
  std::stable_sort(basis.order.begin(), basis.order.end(),
                   [&](uint32_t a, uint32_t b) { return sums[a * cols + a] > sums[b * cols + b]; });
  const float added = is_factored ? find_factor(pool, sums, cols, mean, damping, &basis)
                                  : added_to_diagonal(mean, damping);
  basis.hessian = PanelMatrix(cols, cols, PanelFormat::kF32);
  for (size_t i = 0; i < cols; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const float value = sums[i * cols + j] + (i == j ? added : 0.0f);
      basis.hessian.at(i, j) = value;
      basis.hessian.at(j, i) = value;
    }
  }
  return basis;
}

RoundedRows round_rows(hosted::ThreadPool* pool, const RoundingBasis& basis,
                       const MatrixShape& shape, ScaleSigns signs, const float* targets,
                       const RoundingSteps& steps) {
  const size_t padded = padded_cols(shape);
  const size_t groups = padded / shape.group_size;
  RoundedRows rounded;
  rounded.codes.resize(shape.rows * padded);
  rounded.scales.resize(shape.rows * groups);
  std::vector<std::unique_ptr<RowRounding>> roundings(pool->n_threads());
  constexpr size_t kTaskRows = RowRounding::kMostRows;
  hosted::shared_loop(pool, (shape.rows + kTaskRows - 1) / kTaskRows,
                      [&](size_t task, size_t worker) {
                        std::unique_ptr<RowRounding>& rounding = roundings[worker];
                        if (!rounding)
                          rounding = std::make_unique<RowRounding>(basis, shape, signs);
                        const size_t first = task * kTaskRows;
                        const size_t n = std::min(kTaskRows, shape.rows - first);
                        rounding->run(targets + first * shape.cols, n, steps);
                        for (size_t r = 0; r < n; ++r) {
                          rounding->take(r, rounded.codes.data() + (first + r) * padded,
                                         rounded.scales.data() + (first + r) * groups);
                        }
                      });
  return rounded;
}

void expand_rows(const MatrixShape& shape, const RoundedRows& rounded, float* values) {
  const size_t padded = padded_cols(shape);
  for (size_t r = 0; r < shape.rows; ++r) {
    const int8_t* const codes = rounded.codes.data() + r * padded;
    float* const of_row = values + r * shape.cols;
    if (shape.group_size == 0) {
      for (size_t i = 0; i < shape.cols; ++i) {
        of_row[i] = static_cast<float>(codes[i]) * rounded.row_scales[r];
      }
      continue;
    }
    const uint16_t* const scales = rounded.scales.data() + r * padded / shape.group_size;
    for (size_t i = 0; i < shape.cols; ++i) {
      of_row[i] = static_cast<float>(value_of_code(shape.number_format, codes[i])) *
                  bf16_to_f32(scales[i / shape.group_size]);
    }
  }
}

}  // namespace cria::converter
