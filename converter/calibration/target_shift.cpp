#include "converter/calibration/target_shift.h"

namespace cria::converter {

TargetShift::TargetShift(hosted::ThreadPool* pool, const RoundingBasis& basis)
    : pool_(pool),
      basis_(basis),
      factor_(basis.hessian.rows(), basis.hessian.rows(), PanelFormat::kF32) {
  const size_t n = factor_.rows();
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i <= j; ++i) factor_.at(i, j) = basis.turned_factor.at(j, i);
  }
}

std::vector<float> TargetShift::targets(const std::vector<float>& weights,
                                        const std::vector<float>& sums) const {
  const size_t cols = factor_.cols();
  const size_t rows = weights.size() / cols;
  std::vector<float> ordered(weights.size());
  std::vector<float> half(weights.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < cols; ++i) ordered[r * cols + i] = sums[r * cols + basis_.order[i]];
  }
  // (H + damping)^-1 is U^T * U in the basis' order: first times U^T, whose columns are U's rows.
  multiply(pool_, ordered.data(), rows, factor_, half.data());
  multiply(pool_, half.data(), rows, basis_.turned_factor, ordered.data());
  std::vector<float> targets = weights;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < cols; ++i) {
      targets[r * cols + basis_.order[i]] += ordered[r * cols + i];
    }
  }
  return targets;
}

}  // namespace cria::converter
