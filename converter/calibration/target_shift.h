// What weights should be so that inputs which rounded layers have changed still give the outputs of
// the float model.
#pragma once

#include <vector>

#include "converter/calibration/gptq_rounding.h"
#include "converter/calibration/panel_product.h"

namespace cria::converter {

// Least squares: W + R * (H + damping)^-1, where R are the sums of products of what the outputs
// should have besides with the (rounded) inputs.
class TargetShift {
 public:
  TargetShift(hosted::ThreadPool* pool, const RoundingBasis& basis);
  // weights, sums  [rows][cols]
  [[nodiscard]] std::vector<float> targets(const std::vector<float>& weights,
                                           const std::vector<float>& sums) const;

 private:
  hosted::ThreadPool* pool_;
  const RoundingBasis& basis_;
  PanelMatrix factor_;  // U, whose turned form the basis has
};

}  // namespace cria::converter
