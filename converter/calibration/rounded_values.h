// What weights become when they are stored in a format, as floats again.
#pragma once

#include <cstddef>

#include "converter/calibration/gptq_rounding.h"
#include "converter/tensor_plan.h"
#include "quant/numbers/quantize.h"

namespace cria::converter {

// Places for n rows, all zero.
[[nodiscard]] RoundedRows places_for(const MatrixShape& shape, size_t n);

// Rows of a matrix of integers as they are rounded without calibration
// (converter/tensor_encoder.h), shared by the pool's threads: values
// [spec.shape.rows][spec.shape.cols].
[[nodiscard]] RoundedRows round_plainly(hosted::ThreadPool* pool, const TensorSpec& spec,
                                        QuantMethod method, const float* values);

// n rows become what they stand for when they are rounded so: values [n][spec.shape.cols], in
// place. A row's result does not depend on those beside it.
void round_values(hosted::ThreadPool* pool, const TensorSpec& spec, QuantMethod method, size_t n,
                  float* values);

// The squared error of a tensor rounded as spec says by the weights' squares; of a large one, on
// rows that lie evenly over it.
[[nodiscard]] double rounding_error(hosted::ThreadPool* pool, const PlannedTensor& tensor,
                                    const TensorSpec& spec, QuantMethod method);

}  // namespace cria::converter
