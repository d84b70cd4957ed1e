#include "quant/numbers/trained_codes.h"

#include <cmath>

#include "quant/numbers/float16.h"

namespace cria {
namespace {

// The codes of weights of one scale; false where one has none.
bool find_codes(format::NumberFormat number_format, const float* weights, size_t n, float scale,
                int8_t* codes, uint16_t* stored_scale) {
  *stored_scale = f32_to_f16(scale);
  if (f16_to_f32(*stored_scale) != scale) return false;
  const int n_codes = 1 << row_of(number_format).code_bits;
  for (size_t i = 0; i < n; ++i) {
    int code = 0;
    while (code < n_codes &&
           static_cast<float>(value_of_code(number_format, code)) * scale != weights[i]) {
      ++code;
    }
    if (code == n_codes) return false;
    codes[i] = static_cast<int8_t>(code);
  }
  return true;
}

// The weight of the largest magnitude.
float largest_of(const float* weights, size_t n) {
  float largest = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::fabs(weights[i]) > std::fabs(largest)) largest = weights[i];
  }
  return largest;
}

bool find_group(format::NumberFormat number_format, const float* weights, size_t n, int8_t* codes,
                uint16_t* scale) {
  const float largest = largest_of(weights, n);
  if (find_codes(number_format, weights, n, std::fabs(largest), codes, scale)) return true;
  // The largest one is twice the scale, which has its sign.
  return number_format == format::NumberFormat::kBit2 &&
         find_codes(number_format, weights, n, largest / 2, codes, scale);
}

}  // namespace

bool find_exact_bits(const MatrixShape& shape, const float* weights, size_t n_rows, int8_t* codes,
                     uint16_t* scales) {
  const size_t padded = padded_cols(shape);
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t begin = 0; begin < padded; begin += shape.group_size, ++scales) {
      const size_t left = shape.cols - begin;
      const size_t n = left < shape.group_size ? left : shape.group_size;
      int8_t* const of_group = codes + row * padded + begin;
      if (!find_group(shape.number_format, weights + row * shape.cols + begin, n, of_group,
                      scales)) {
        return false;
      }
      for (size_t i = n; i < shape.group_size; ++i) of_group[i] = 0;
    }
  }
  return true;
}

}  // namespace cria
