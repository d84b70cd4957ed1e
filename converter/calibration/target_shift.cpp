#include "converter/calibration/target_shift.h"

namespace cria::converter {

TargetShift::TargetShift(hosted::ThreadPool* pool, const RoundingBasis& basis,
                         const std::vector<float>& cross)
    : pool_(pool),
      cols_(basis.hessian.n()),
      cross_(cols_, cols_, PanelFormat::kF32),
      factor_(cols_, cols_, PanelFormat::kF32),
      turned_factor_(cols_, cols_, PanelFormat::kF32) {
  std::vector<float> row(cols_);
  for (size_t i = 0; i < cols_; ++i) {
    cross_.set_col(i, cross.data() + i * cols_);
    for (size_t j = 0; j < cols_; ++j) row[basis.order[j]] = basis.factor.row(i)[j];
    factor_.set_row(i, row.data());
    turned_factor_.set_col(i, row.data());
  }
}

std::vector<float> TargetShift::targets(const std::vector<float>& weights,
                                        const std::vector<float>& missing) const {
  const size_t rows = weights.size() / cols_;
  std::vector<float> shift(weights.size());
  std::vector<float> half(weights.size());
  multiply(pool_, weights.data(), rows, cross_, shift.data());
  for (size_t i = 0; i < missing.size(); ++i) shift[i] += missing[i];
  // (H + damping)^-1 is U^T * U: first times U^T, whose columns are U's rows.
  multiply(pool_, shift.data(), rows, factor_, half.data());
  multiply(pool_, half.data(), rows, turned_factor_, shift.data());
  std::vector<float> targets = weights;
  for (size_t i = 0; i < targets.size(); ++i) targets[i] += shift[i];
  return targets;
}

}  // namespace cria::converter
