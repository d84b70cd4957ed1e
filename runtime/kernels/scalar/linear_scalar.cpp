// Scalar reference of the matrix products. Naive for ever: every other ISA is judged by it.
// Contracts are in runtime/kernels/kernels.h.
#include <bit>
#include <cstring>

#include "quant/numbers/float16.h"
#include "runtime/kernels/scalar/scalar.h"

namespace cria {
namespace {

constexpr float kLargestCode = 127.0f;
constexpr float kRoundMagic = 0x1.8p23f;  // x + it - it rounds |x| < 2^22 half to even
constexpr uint32_t kMagnitudeMask = 0x7fffffff;
constexpr uint32_t kInfinityBits = 0x7f800000;

// Largest |x| as bits: integers order like the magnitudes, and NaN comes out largest.
uint32_t largest_magnitude(const float* x, size_t n) {
  uint32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & kMagnitudeMask;
    if (magnitude > largest) largest = magnitude;
  }
  return largest;
}

float load_f32(const uint8_t* p) {
  float value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint16_t load_u16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Dot product of one group of 32 codes of a row with 32 activations.
int32_t dot_group(const MatrixShape& shape, const uint8_t* codes, size_t row, size_t group,
                  const int8_t* x) {
  int32_t sum = 0;
  for (size_t i = 0; i < kActivationGroup; ++i) {
    const size_t col = group * kActivationGroup + i;
    sum += value_of_code(shape.number_format, unpack_code(shape, codes, row, col)) * x[col];
  }
  return sum;
}

// The weight scale of a row for inputs of one activation group.
float weight_scale(const MatrixShape& shape, const uint8_t* scales, size_t row, size_t group) {
  const uint8_t* tile = scales + row / kTileRows * tile_scale_bytes(shape);
  const size_t row_in_tile = row % kTileRows;
  if (shape.number_format == format::NumberFormat::kInt8) return load_f32(tile + row_in_tile * 4);
  const size_t weight_group = group * kActivationGroup / shape.group_size;
  return group_scale(shape.number_format,
                     load_u16(tile + (weight_group * kTileRows + row_in_tile) * 2));
}

size_t last_row(const MatrixShape& shape, size_t last_tile) {
  const size_t end = last_tile * kTileRows;
  return end < shape.rows ? end : shape.rows;
}

// Weight (row, col) of a float matrix.
float float_weight(const MatrixShape& shape, const uint8_t* codes, size_t row, size_t col) {
  const uint8_t* tile = codes + row / kTileRows * tile_code_bytes(shape);
  const size_t element = col * kTileRows + row % kTileRows;
  switch (shape.number_format) {
    case format::NumberFormat::kF32:
      return load_f32(tile + element * 4);
    case format::NumberFormat::kF16:
      return f16_to_f32(load_u16(tile + element * 2));
    case format::NumberFormat::kBf16:
      return bf16_to_f32(load_u16(tile + element * 2));
    case format::NumberFormat::kInt8:
    case format::NumberFormat::kInt4:
    case format::NumberFormat::kInt4Nl:
    case format::NumberFormat::kInt8G32:
    case format::NumberFormat::kBit1:
    case format::NumberFormat::kBit2:
      break;  // not a float's
  }
  return 0.0f;
}

}  // namespace

void quantize_row_scalar(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                         float* scales, int32_t* sums) {
  for (size_t begin = 0; begin < n_padded; begin += group) {
    const size_t end = begin + group < n ? begin + group : (begin < n ? n : begin);
    const uint32_t largest_bits = largest_magnitude(x + begin, end - begin);
    const float largest = std::bit_cast<float>(largest_bits);
    const bool is_zero = largest_bits >= kInfinityBits || largest < kSmallestActivation;
    scales[begin / group] = is_zero ? 0.0f : largest / kLargestCode;
    const float inverse = is_zero ? 0.0f : kLargestCode / largest;
    int32_t sum = 0;
    for (size_t i = begin; i < end; ++i) {
      const float rounded = is_zero ? 0.0f : (x[i] * inverse + kRoundMagic) - kRoundMagic;
      codes[i] = static_cast<int8_t>(static_cast<int>(rounded));
      sum += codes[i];
    }
    if (sums != nullptr) sums[begin / group] = sum;
    for (size_t i = end; i < begin + group; ++i) codes[i] = 0;
  }
}

void matmul_codes_scalar(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                         size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                         size_t y_stride) {
  const size_t cols = padded_cols(shape);
  const size_t n_groups = cols / kActivationGroup;
  for (size_t i = 0; i < x.n_rows; ++i) {
    for (size_t row = first_tile * kTileRows; row < last_row(shape, last_tile); ++row) {
      float acc = 0.0f;
      for (size_t group = 0; group < n_groups; ++group) {
        const int32_t dot = dot_group(shape, codes, row, group, x.codes + i * cols);
        const float scale =
            weight_scale(shape, scales, row, group) * x.scales[i * n_groups + group];
        acc += static_cast<float>(dot) * scale;
      }
      y[i * y_stride + row] = acc;
    }
  }
}

void matmul_floats_scalar(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                          size_t last_tile, const float* x, size_t n_rows, float* y,
                          size_t y_stride) {
  for (size_t i = 0; i < n_rows; ++i) {
    for (size_t row = first_tile * kTileRows; row < last_row(shape, last_tile); ++row) {
      float acc = 0.0f;
      for (size_t col = 0; col < shape.cols; ++col) {
        acc += float_weight(shape, codes, row, col) * x[i * shape.cols + col];
      }
      y[i * y_stride + row] = acc;
    }
  }
}

}  // namespace cria
