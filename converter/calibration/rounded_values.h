// What weights become when they are stored in a format, as floats again.
#pragma once

#include <cstddef>

#include "converter/calibration/float_layer.h"
#include "quant/quantize.h"

namespace cria::converter {

// Rows of a matrix of integers, rounded as without calibration: values [n][spec.shape.cols], in
// place. A row's result does not depend on those beside it.
void round_values(const TensorSpec& spec, QuantMethod method, size_t n, float* values);
// The same, shared by the pool's threads.
void round_values(hosted::ThreadPool* pool, const TensorSpec& spec, QuantMethod method, size_t n,
                  float* values);

// The squared error of a matrix of integers by the weights' squares; of a large one, on rows that
// lie evenly over it.
[[nodiscard]] double rounding_error(hosted::ThreadPool* pool, const PlannedWeights& weights,
                                    const TensorSpec& spec, QuantMethod method);

}  // namespace cria::converter
