#include "converter/calibration/rounded_values.h"

#include <algorithm>
#include <vector>

#include "converter/calibration/gptq_rounding.h"
#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

using format::NumberFormat;

constexpr size_t kTaskRows = 16;
constexpr size_t kSampledWeights = size_t{1} << 22;  // enough for the error of a large matrix

void round_groups(const TensorSpec& spec, QuantMethod method, size_t n, float* values) {
  MatrixShape shape = spec.shape;
  shape.rows = static_cast<uint32_t>(n);
  const size_t padded = padded_cols(shape);
  RoundedRows rounded;
  rounded.codes.resize(n * padded);
  rounded.scales.resize(n * padded / shape.group_size);
  if (shape.number_format == NumberFormat::kInt8G32) {
    quantize_rows_int8g32(shape, values, n, method, rounded.codes.data(), rounded.scales.data());
  } else {
    quantize_rows_int4(shape, values, n, method, scale_signs(spec), rounded.codes.data(),
                       rounded.scales.data());
  }
  expand_rows(shape, rounded, values);
}

void round_whole_rows(const MatrixShape& shape, QuantMethod method, size_t n, float* values) {
  std::vector<int8_t> codes(padded_cols(shape));
  for (size_t row = 0; row < n; ++row) {
    float* const of_row = values + row * shape.cols;
    float scale;
    quantize_row_int8(of_row, shape.cols, method, codes.size(), codes.data(), &scale);
    for (size_t i = 0; i < shape.cols; ++i) of_row[i] = static_cast<float>(codes[i]) * scale;
  }
}

}  // namespace

void round_values(const TensorSpec& spec, QuantMethod method, size_t n, float* values) {
  switch (spec.shape.number_format) {
    case NumberFormat::kInt4:
    case NumberFormat::kInt4Nl:
    case NumberFormat::kInt8G32:
      return round_groups(spec, method, n, values);
    case NumberFormat::kInt8:
      return round_whole_rows(spec.shape, method, n, values);
    case NumberFormat::kF32:
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
      return;
  }
}

void round_values(hosted::ThreadPool* pool, const TensorSpec& spec, QuantMethod method, size_t n,
                  float* values) {
  hosted::shared_loop(pool, (n + kTaskRows - 1) / kTaskRows, [&](size_t task, size_t) {
    const size_t first = task * kTaskRows;
    round_values(spec, method, std::min(kTaskRows, n - first), values + first * spec.shape.cols);
  });
}

double rounding_error(hosted::ThreadPool* pool, const PlannedWeights& weights,
                      const TensorSpec& spec, QuantMethod method) {
  const PlannedTensor& tensor = *weights.find(spec.role, spec.layer);
  const size_t rows = spec.shape.rows;
  const size_t cols = spec.shape.cols;
  const size_t n_blocks = (rows + kTaskRows - 1) / kTaskRows;
  const size_t most_blocks = std::max<size_t>(1, kSampledWeights / (kTaskRows * cols));
  const size_t step = (n_blocks + most_blocks - 1) / most_blocks;
  const size_t n_taken = (n_blocks + step - 1) / step;
  struct Sums {
    double signal = 0;
    double noise = 0;
  };
  std::vector<Sums> sums(n_taken);
  hosted::shared_loop(pool, n_taken, [&](size_t i, size_t) {
    const size_t first = i * step * kTaskRows;
    const size_t n = std::min(kTaskRows, rows - first);
    std::vector<uint8_t> bytes;
    std::vector<float> exact(n * cols);
    tensor.source->read_rows(first, n, &bytes, exact.data());
    std::vector<float> rounded = exact;
    round_values(spec, method, n, rounded.data());
    for (size_t k = 0; k < exact.size(); ++k) {
      const auto value = static_cast<double>(exact[k]);
      const double difference = value - static_cast<double>(rounded[k]);
      sums[i].signal += value * value;
      sums[i].noise += difference * difference;
    }
  });
  Sums all;
  for (const Sums& part : sums) {
    all.signal += part.signal;
    all.noise += part.noise;
  }
  return all.signal > 0 ? all.noise / all.signal : 0;
}

}  // namespace cria::converter
