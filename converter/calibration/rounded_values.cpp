#include "converter/calibration/rounded_values.h"

#include <algorithm>
#include <vector>

#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

constexpr size_t kTaskRows = 16;
constexpr size_t kSampledWeights = size_t{1} << 22;  // enough for the error of a large matrix

// Rows first to first + n; places for all are there.
void round_some(const TensorSpec& spec, QuantMethod method, const float* values, size_t first,
                size_t n, RoundedRows* rounded) {
  const MatrixShape& shape = spec.shape;
  const size_t padded = padded_cols(shape);
  const float* const from = values + first * shape.cols;
  int8_t* const codes = rounded->codes.data() + first * padded;
  if (shape.group_size == 0) {
    for (size_t i = 0; i < n; ++i) {
      quantize_row_int8(from + i * shape.cols, shape.cols, method, padded, codes + i * padded,
                        &rounded->row_scales[first + i]);
    }
    return;
  }
  uint16_t* const scales = rounded->scales.data() + first * padded / shape.group_size;
  quantize_groups(shape, from, n, method, scale_signs(spec), codes, scales);
}

// On the calling thread.
void round_part(const TensorSpec& spec, QuantMethod method, size_t n, float* values) {
  RoundedRows rounded = places_for(spec.shape, n);
  round_some(spec, method, values, 0, n, &rounded);
  MatrixShape shape = spec.shape;
  shape.rows = static_cast<uint32_t>(n);
  expand_rows(shape, rounded, values);
}

// Calls body(first row, n) for parts of rows.
template <typename Body>
void for_tasks(hosted::ThreadPool* pool, size_t n_rows, const Body& body) {
  hosted::shared_loop(pool, (n_rows + kTaskRows - 1) / kTaskRows, [&](size_t task, size_t) {
    const size_t first = task * kTaskRows;
    body(first, std::min(kTaskRows, n_rows - first));
  });
}

}  // namespace

RoundedRows places_for(const MatrixShape& shape, size_t n) {
  RoundedRows rounded;
  rounded.codes.resize(n * padded_cols(shape));
  if (shape.group_size == 0) {
    rounded.row_scales.resize(n);
  } else {
    rounded.scales.resize(rounded.codes.size() / shape.group_size);
  }
  return rounded;
}

RoundedRows round_plainly(hosted::ThreadPool* pool, const TensorSpec& spec, QuantMethod method,
                          const float* values) {
  RoundedRows rounded = places_for(spec.shape, spec.shape.rows);
  for_tasks(pool, spec.shape.rows,
            [&](size_t first, size_t n) { round_some(spec, method, values, first, n, &rounded); });
  return rounded;
}

void round_values(hosted::ThreadPool* pool, const TensorSpec& spec, QuantMethod method, size_t n,
                  float* values) {
  for_tasks(pool, n, [&](size_t first, size_t n_rows) {
    round_part(spec, method, n_rows, values + first * spec.shape.cols);
  });
}

double rounding_error(hosted::ThreadPool* pool, const PlannedTensor& tensor, const TensorSpec& spec,
                      QuantMethod method) {
  const size_t rows = size_t{spec.n_matrices} * spec.shape.rows;
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
    round_part(spec, method, n, rounded.data());
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
