// The weights of a model as floats, read from a checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "converter/calibration/panel_product.h"
#include "converter/tensor_plan.h"
#include "platforms/hosted/base/thread_pool.h"

namespace cria::converter {

// The tensors of a plan, each by its place in it. Throws ProgramError where a value is infinite or
// no number, or a file cannot be read.
class PlannedWeights {
 public:
  // rope: the tensor kRope. What is passed outlives this.
  PlannedWeights(const TensorPlan& plan, std::span<const float> rope, hosted::ThreadPool* pool)
      : plan_(plan), rope_(rope), pool_(pool) {}

  [[nodiscard]] std::span<const PlannedTensor> tensors() const { return plan_.tensors; }
  // Outside the layers; the model has it.
  [[nodiscard]] const PlannedTensor& find(format::TensorRole role) const;
  // What makes logits: the embedding where it is tied.
  [[nodiscard]] const PlannedTensor& output_layer() const;

  [[nodiscard]] std::vector<float> vector(const PlannedTensor& tensor) const;
  // n rows of a matrix; of a stack, those of all its matrices stand after one another.
  [[nodiscard]] std::vector<float> rows(const PlannedTensor& tensor, size_t first, size_t n) const;
  // Single rows of a matrix, by their numbers: values [numbers.size()][cols].
  void gather(const PlannedTensor& tensor, std::span<const size_t> numbers, float* values) const;
  // A matrix, of a stack that at index, [rows][cols].
  [[nodiscard]] std::vector<float> matrix(const PlannedTensor& tensor, uint32_t index = 0) const;
  // The same as panels; no more than a few rows are in memory besides.
  [[nodiscard]] PanelMatrix panels(const PlannedTensor& tensor, PanelFormat format,
                                   uint32_t index = 0) const;

 private:
  const TensorPlan& plan_;
  std::span<const float> rope_;
  hosted::ThreadPool* pool_;
};

// Panels of [rows][cols] values.
[[nodiscard]] PanelMatrix to_panels(hosted::ThreadPool* pool, const float* values, size_t rows,
                                    size_t cols, PanelFormat format);

}  // namespace cria::converter
