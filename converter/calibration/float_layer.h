// The weights of a decoder layer as floats, read from a checkpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "converter/calibration/panel_product.h"
#include "converter/tensor_plan.h"
#include "platforms/hosted/base/thread_pool.h"

namespace cria::converter {

// The tensors of a plan by their roles.
class PlannedWeights {
 public:
  PlannedWeights(const TensorPlan& plan, hosted::ThreadPool* pool) : plan_(plan), pool_(pool) {}

  // nullptr: the model has none such. layer: format::kNone outside the layers.
  [[nodiscard]] const PlannedTensor* find(format::TensorRole role, uint32_t layer) const;
  // A vector's values; empty: the model has none such. Throws ProgramError.
  [[nodiscard]] std::vector<float> vector(format::TensorRole role, uint32_t layer) const;
  // That of a matrix, likewise.
  [[nodiscard]] std::vector<float> bias(format::TensorRole matrix, uint32_t layer) const;
  // A matrix, [rows][cols]. Throws ProgramError, also where a value is infinite or no number.
  [[nodiscard]] std::vector<float> matrix(format::TensorRole role, uint32_t layer) const;
  // n of its rows.
  [[nodiscard]] std::vector<float> rows(const PlannedTensor& tensor, size_t first, size_t n) const;
  // The same as panels; no more than a few rows are in memory besides.
  [[nodiscard]] PanelMatrix panels(format::TensorRole role, uint32_t layer,
                                   PanelFormat format) const;

 private:
  const TensorPlan& plan_;
  hosted::ThreadPool* pool_;
};

// Panels of [rows][cols] values.
[[nodiscard]] PanelMatrix to_panels(hosted::ThreadPool* pool, const float* values, size_t rows,
                                    size_t cols, PanelFormat format);

// y [n][m.rows()] = x * m^T + bias, where there is one.
struct FloatLinear {
  PanelMatrix matrix;
  std::vector<float> bias;
  void apply(hosted::ThreadPool* pool, const float* x, size_t n, float* y) const;
};

struct FloatLayer {
  std::vector<float> attention_norm;
  std::vector<float> q_norm;  // empty: heads are not normalized
  std::vector<float> k_norm;
  std::vector<float> ffn_norm;
  FloatLinear q, k, v, o, gate, up, down;
};

[[nodiscard]] FloatLayer read_layer(const PlannedWeights& weights, uint32_t layer,
                                    PanelFormat format);

}  // namespace cria::converter
