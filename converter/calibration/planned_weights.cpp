#include "converter/calibration/planned_weights.h"

#include <algorithm>

#include "converter/error.h"
#include "converter/float_rows.h"
#include "converter/tensor_names.h"
#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr size_t kTaskRows = 64;

void check_finite(const SourceTensor& source, std::span<const float> values) {
  if (all_finite(values.data(), values.size())) return;
  throw ProgramError(ExitCode::kInvalidInput,
                     source.path().string() + ": tensor " + source.name() +
                         " has values that are infinite or not numbers: the checkpoint is damaged, "
                         "download it again");
}

// Calls take(first row, n, values) for parts of a matrix's rows begin to end, in parallel.
template <typename Take>
void for_parts(hosted::ThreadPool* pool, const PlannedTensor& tensor, size_t begin, size_t end,
               const Take& take) {
  const size_t cols = tensor.spec.shape.cols;
  struct Scratch {
    std::vector<uint8_t> bytes;
    std::vector<float> values;
  };
  std::vector<Scratch> scratches(pool->n_threads());
  hosted::shared_loop(pool, (end - begin + kTaskRows - 1) / kTaskRows,
                      [&](size_t task, size_t worker) {
                        Scratch& scratch = scratches[worker];
                        const size_t first = begin + task * kTaskRows;
                        const size_t n = std::min(kTaskRows, end - first);
                        scratch.values.resize(n * cols);
                        tensor.source->read_rows(first, n, &scratch.bytes, scratch.values.data());
                        check_finite(*tensor.source, scratch.values);
                        take(first, n, scratch.values.data());
                      });
}

}  // namespace

const PlannedTensor& PlannedWeights::find(TensorRole role) const {
  const auto is_it = [&](const PlannedTensor& tensor) {
    return tensor.spec.role == role && tensor.spec.layer == format::kNone;
  };
  return *std::find_if(plan_.tensors.begin(), plan_.tensors.end(), is_it);
}

const PlannedTensor& PlannedWeights::output_layer() const {
  const PlannedTensor& last = plan_.tensors.back();
  return last.spec.role == TensorRole::kLmHead ? last : find(TensorRole::kEmbedding);
}

std::vector<float> PlannedWeights::vector(const PlannedTensor& tensor) const {
  if (tensor.source == nullptr) return {rope_.begin(), rope_.end()};
  std::vector<float> values(tensor.spec.shape.cols);
  std::vector<uint8_t> scratch;
  tensor.source->read_rows(0, values.size(), &scratch, values.data());
  check_finite(*tensor.source, values);
  return values;
}

std::vector<float> PlannedWeights::rows(const PlannedTensor& tensor, size_t first, size_t n) const {
  const size_t cols = tensor.spec.shape.cols;
  std::vector<float> values(n * cols);
  for_parts(pool_, tensor, first, first + n, [&](size_t row, size_t n_rows, const float* from) {
    std::copy_n(from, n_rows * cols, values.data() + (row - first) * cols);
  });
  return values;
}

void PlannedWeights::gather(const PlannedTensor& tensor, std::span<const size_t> numbers,
                            float* values) const {
  const size_t cols = tensor.spec.shape.cols;
  hosted::shared_loop(pool_, (numbers.size() + kTaskRows - 1) / kTaskRows,
                      [&](size_t task, size_t) {
                        std::vector<uint8_t> bytes;
                        const size_t end = std::min((task + 1) * kTaskRows, numbers.size());
                        for (size_t i = task * kTaskRows; i < end; ++i) {
                          float* const row = values + i * cols;
                          tensor.source->read_rows(numbers[i], 1, &bytes, row);
                          check_finite(*tensor.source, {row, cols});
                        }
                      });
}

std::vector<float> PlannedWeights::matrix(const PlannedTensor& tensor, uint32_t index) const {
  const size_t n = tensor.spec.shape.rows;
  return rows(tensor, index * n, n);
}

PanelMatrix PlannedWeights::panels(const PlannedTensor& tensor, PanelFormat format,
                                   uint32_t index) const {
  const size_t n_rows = tensor.spec.shape.rows;
  const size_t cols = tensor.spec.shape.cols;
  PanelMatrix panels(n_rows, cols, format);
  const size_t begin = index * n_rows;
  for_parts(pool_, tensor, begin, begin + n_rows, [&](size_t first, size_t n, const float* rows) {
    for (size_t i = 0; i < n; ++i) panels.set_row(first - begin + i, rows + i * cols);
  });
  return panels;
}

PanelMatrix to_panels(hosted::ThreadPool* pool, const float* values, size_t rows, size_t cols,
                      PanelFormat format) {
  PanelMatrix panels(rows, cols, format);
  hosted::shared_loop(pool, (rows + kTaskRows - 1) / kTaskRows, [&](size_t task, size_t) {
    const size_t end = std::min((task + 1) * kTaskRows, rows);
    for (size_t i = task * kTaskRows; i < end; ++i) panels.set_row(i, values + i * cols);
  });
  return panels;
}

}  // namespace cria::converter
