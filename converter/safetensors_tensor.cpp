#include "converter/safetensors_tensor.h"

#include "converter/float_rows.h"
#include "converter/memory_size.h"

namespace cria::converter {

std::string SafetensorsTensor::problem() const {
  if (entry_.type) return "";
  return "has dtype " + entry_.dtype + "; only F32, F16 and BF16 are read";
}

void SafetensorsTensor::read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                                  float* values) const {
  const size_t n_values = memory_size(n * n_cols());
  const uint64_t row_bytes = n_cols() * bytes_per_value(*entry_.type);
  scratch->resize(memory_size(n * row_bytes));
  file_.read(entry_.offset + first * row_bytes, *scratch);
  widen(*entry_.type, scratch->data(), n_values, values);
}

void SafetensorsTensor::read_columns(uint64_t first, size_t n, uint64_t first_column,
                                     size_t n_columns, std::vector<uint8_t>* scratch,
                                     float* values) const {
  const uint64_t value_bytes = bytes_per_value(*entry_.type);
  scratch->resize(memory_size(n_columns * value_bytes));
  for (size_t i = 0; i < n; ++i) {
    const uint64_t place = (first + i) * n_cols() + first_column;
    file_.read(entry_.offset + place * value_bytes, *scratch);
    widen(*entry_.type, scratch->data(), n_columns, values + i * n_columns);
  }
}

}  // namespace cria::converter
