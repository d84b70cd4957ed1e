// What weights should be so that inputs which rounded layers have changed still give the outputs of
// the float model.
#pragma once

#include <vector>

#include "converter/calibration/gptq_rounding.h"
#include "converter/calibration/panel_product.h"

namespace cria::converter {

// Least squares: W + (W * D + M) * (H + damping)^-1, where D are the sums of products of the
// inputs' differences (exact - rounded) with the rounded inputs, and M those of what the outputs
// should have besides.
class TargetShift {
 public:
  // cross  [cols][cols]: add_products(exact - rounded, rounded)
  TargetShift(hosted::ThreadPool* pool, const RoundingBasis& basis,
              const std::vector<float>& cross);
  // weights  [rows][cols]
  // missing  [rows][cols]: add_products(what is missing, rounded); empty: nothing is
  [[nodiscard]] std::vector<float> targets(const std::vector<float>& weights,
                                           const std::vector<float>& missing) const;

 private:
  hosted::ThreadPool* pool_;
  size_t cols_;
  PanelMatrix cross_;   // turned: products are with its columns
  PanelMatrix factor_;  // U, columns in the weights' order
  PanelMatrix turned_factor_;
};

}  // namespace cria::converter
