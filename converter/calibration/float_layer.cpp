#include "converter/calibration/float_layer.h"

#include <algorithm>

#include "converter/calibration/decoder_math.h"
#include "converter/error.h"
#include "converter/float_rows.h"
#include "converter/tensor_names.h"
#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr size_t kTaskRows = 64;

void check_finite(const SourceTensor& source, const std::vector<float>& values) {
  if (all_finite(values.data(), values.size())) return;
  throw ProgramError(ExitCode::kInvalidInput,
                     source.path().string() + ": tensor " + source.name() +
                         " has values that are infinite or no numbers: the checkpoint is damaged, "
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

const PlannedTensor* PlannedWeights::find(TensorRole role, uint32_t layer) const {
  for (const PlannedTensor& tensor : plan_.tensors) {
    if (tensor.spec.role == role && tensor.spec.layer == layer) return &tensor;
  }
  return nullptr;
}

std::vector<float> PlannedWeights::vector(TensorRole role, uint32_t layer) const {
  const PlannedTensor* tensor = find(role, layer);
  if (tensor == nullptr) return {};
  std::vector<float> values(tensor->spec.shape.cols);
  std::vector<uint8_t> scratch;
  tensor->source->read_rows(0, values.size(), &scratch, values.data());
  check_finite(*tensor->source, values);
  return values;
}

std::vector<float> PlannedWeights::bias(TensorRole matrix, uint32_t layer) const {
  const PlannedTensor* next = find(matrix, layer) + 1;
  const bool is_its = next != plan_.tensors.data() + plan_.tensors.size() &&
                      next->spec.role != matrix && without_bias(next->spec.role) == matrix;
  return is_its ? vector(next->spec.role, layer) : std::vector<float>();
}

std::vector<float> PlannedWeights::matrix(TensorRole role, uint32_t layer) const {
  const PlannedTensor& tensor = *find(role, layer);
  return rows(tensor, 0, tensor.spec.shape.rows);
}

std::vector<float> PlannedWeights::rows(const PlannedTensor& tensor, size_t first, size_t n) const {
  const size_t cols = tensor.spec.shape.cols;
  std::vector<float> values(n * cols);
  for_parts(pool_, tensor, first, first + n, [&](size_t row, size_t n_rows, const float* from) {
    std::copy_n(from, n_rows * cols, values.data() + (row - first) * cols);
  });
  return values;
}

PanelMatrix PlannedWeights::panels(TensorRole role, uint32_t layer, PanelFormat format) const {
  const PlannedTensor& tensor = *find(role, layer);
  const size_t cols = tensor.spec.shape.cols;
  PanelMatrix panels(tensor.spec.shape.rows, cols, format);
  for_parts(pool_, tensor, 0, panels.rows(), [&](size_t first, size_t n, const float* rows) {
    for (size_t i = 0; i < n; ++i) panels.set_row(first + i, rows + i * cols);
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

void FloatLinear::apply(hosted::ThreadPool* pool, const float* x, size_t n, float* y) const {
  multiply(pool, x, n, matrix, y);
  if (bias.empty()) return;
  for (size_t i = 0; i < n; ++i) add_scaled(bias.data(), 1.0f, bias.size(), y + i * bias.size());
}

FloatLayer read_layer(const PlannedWeights& weights, uint32_t layer, PanelFormat format) {
  const auto linear = [&](TensorRole matrix) {
    return FloatLinear{weights.panels(matrix, layer, format), weights.bias(matrix, layer)};
  };
  return {weights.vector(TensorRole::kMixerNorm, layer),
          weights.vector(TensorRole::kQNorm, layer),
          weights.vector(TensorRole::kKNorm, layer),
          weights.vector(TensorRole::kFfnNorm, layer),
          linear(TensorRole::kQ),
          linear(TensorRole::kK),
          linear(TensorRole::kV),
          linear(TensorRole::kO),
          linear(TensorRole::kGate),
          linear(TensorRole::kUp),
          linear(TensorRole::kDown)};
}

}  // namespace cria::converter
