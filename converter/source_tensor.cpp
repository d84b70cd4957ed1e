#include "converter/source_tensor.h"

#include <algorithm>
#include <cstring>

#include "converter/memory_size.h"

namespace cria::converter {
namespace {

constexpr uint64_t kValuesAtOnce = 1 << 18;

}  // namespace

uint64_t SourceTensor::n_rows() const {
  if (shape_.size() < 2) return shape_.empty() ? 0 : shape_.front();
  uint64_t n = 1;
  for (size_t i = 0; i + 1 < shape_.size(); ++i) n *= shape_[i];
  return n;
}

void SourceTensor::read_columns(uint64_t first, size_t n, uint64_t first_column, size_t n_columns,
                                std::vector<uint8_t>* scratch, float* values) const {
  const size_t n_cols = memory_size(this->n_cols());
  const size_t rows_at_once = std::max<size_t>(1, kValuesAtOnce / std::max<size_t>(1, n_cols));
  std::vector<float> rows;
  for (size_t i = 0; i < n; i += rows_at_once) {
    const size_t n_strip = std::min(rows_at_once, n - i);
    rows.resize(n_strip * n_cols);
    read_rows(first + i, n_strip, scratch, rows.data());
    for (size_t row = 0; row < n_strip; ++row) {
      const float* from = rows.data() + row * n_cols + first_column;
      std::copy_n(from, n_columns, values + (i + row) * n_columns);
    }
  }
}

void SourceTensor::read_int4(uint64_t /*first*/, size_t /*n*/, std::vector<uint8_t>* /*scratch*/,
                             int8_t* /*codes*/, float* /*scales*/) const {}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

bool same_values(const SourceTensor& a, const SourceTensor& b) {
  if (a.shape() != b.shape()) return false;
  const uint64_t n_cols = std::max<uint64_t>(1, a.n_cols());
  const uint64_t rows_at_once = std::max<uint64_t>(1, kValuesAtOnce / n_cols);
  std::vector<uint8_t> scratch;
  std::vector<float> values_a;
  std::vector<float> values_b;
  for (uint64_t row = 0; row < a.n_rows(); row += rows_at_once) {
    const size_t n = memory_size(std::min(rows_at_once, a.n_rows() - row));
    values_a.resize(memory_size(n * n_cols));
    values_b.resize(values_a.size());
    a.read_rows(row, n, &scratch, values_a.data());
    b.read_rows(row, n, &scratch, values_b.data());
    if (std::memcmp(values_a.data(), values_b.data(), values_a.size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace cria::converter
