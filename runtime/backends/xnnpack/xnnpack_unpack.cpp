#include "runtime/backends/xnnpack/xnnpack_unpack.h"

#include <bit>
#include <cstring>
#include <limits>

#include "quant/numbers/float16.h"

namespace cria::xnnpack {
namespace {

using format::NumberFormat;

constexpr uint8_t kZeroPair = 0x88;  // two int4 codes of zero
constexpr uint32_t kExponentBits = 0x7f800000;
constexpr float kSmallestScale = std::numeric_limits<float>::min();

bool is_positive_normal(float scale) {
  const uint32_t bits = std::bit_cast<uint32_t>(scale);
  const uint32_t exponent = bits & kExponentBits;
  return (bits >> 31) == 0 && exponent != 0 && exponent != kExponentBits;
}

// Eight bytes with a nibble each, in their low halves, as four bytes: byte b of the result holds
// nibble 2b low and nibble 2b + 1 high.
uint32_t join_nibbles(uint64_t nibbles) {
  uint64_t v = (nibbles | nibbles >> 4) & 0x00ff00ff00ff00ff;
  v = (v | v >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(v | v >> 16);
}

// One row of a block of 32 inputs: four bytes of each of its four lines become 16 bytes.
void unpack_int4_block_row(const uint8_t* block, size_t row, uint8_t* out) {
  constexpr uint64_t kLowNibbles = 0x0f0f0f0f0f0f0f0f;
  constexpr size_t kHalf = kInt4BlockInputs / 4;  // bytes that 16 inputs take
  for (size_t half = 0; half < 2; ++half) {       // lines 0 and 1, then 2 and 3
    uint64_t pairs = 0;
    for (size_t line = 0; line < 2; ++line) {
      uint32_t quad;
      std::memcpy(&quad, block + (2 * half + line) * kLineBytes + row * 4, sizeof quad);
      pairs |= uint64_t{quad} << (32 * line);
    }
    const uint32_t low = join_nibbles(pairs & kLowNibbles);
    const uint32_t high = join_nibbles(pairs >> 4 & kLowNibbles);
    std::memcpy(out + half * sizeof low, &low, sizeof low);
    std::memcpy(out + kHalf + half * sizeof high, &high, sizeof high);
  }
}

float load_value(const MatrixShape& shape, const uint8_t* tile, size_t element) {
  if (shape.number_format == NumberFormat::kF32) {
    float value;
    std::memcpy(&value, tile + element * sizeof value, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, tile + element * sizeof bits, sizeof bits);
  return shape.number_format == NumberFormat::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

}  // namespace

void unpack_int4_tile(const MatrixShape& shape, const uint8_t* tile_codes,
                      const uint8_t* tile_scales, size_t n_rows, uint8_t* codes, uint16_t* scales) {
  const size_t row_bytes = padded_cols(shape) / 2;
  const size_t n_blocks = padded_cols(shape) / kInt4BlockInputs;
  for (size_t block = 0; block < n_blocks; ++block) {
    for (size_t row = 0; row < n_rows; ++row) {
      unpack_int4_block_row(tile_codes + block * kInt4BlockBytes, row,
                            codes + row * row_bytes + block * kInt4BlockInputs / 2);
    }
  }
  const size_t group_bytes = shape.group_size / size_t{2};
  const size_t n_groups = row_bytes / group_bytes;
  for (size_t group = 0; group < n_groups; ++group) {
    for (size_t row = 0; row < n_rows; ++row) {
      uint16_t scale;
      std::memcpy(&scale, tile_scales + (group * kTileRows + row) * sizeof scale, sizeof scale);
      if (!is_positive_normal(bf16_to_f32(scale))) {
        scale = f32_to_bf16(kSmallestScale);
        std::memset(codes + row * row_bytes + group * group_bytes, kZeroPair, group_bytes);
      }
      scales[row * n_groups + group] = scale;
    }
  }
}

void unpack_int8_tile(const MatrixShape& shape, const uint8_t* tile_codes,
                      const uint8_t* tile_scales, size_t n_rows, int8_t* codes, float* scales) {
  const size_t cols = padded_cols(shape);
  for (size_t col = 0; col < cols; col += kInt8LineInputs) {
    const uint8_t* line = tile_codes + col / kInt8LineInputs * kLineBytes;
    for (size_t row = 0; row < n_rows; ++row) {
      std::memcpy(codes + row * cols + col, line + row * kInt8LineInputs, kInt8LineInputs);
    }
  }
  for (size_t row = 0; row < n_rows; ++row) {
    float scale;
    std::memcpy(&scale, tile_scales + row * sizeof scale, sizeof scale);
    if (!is_positive_normal(scale)) {
      scale = kSmallestScale;
      std::memset(codes + row * cols, 0, cols);
    }
    scales[row] = scale;
  }
}

void unpack_float_tile(const MatrixShape& shape, const uint8_t* tile_codes, size_t n_rows,
                       float* values) {
  const size_t cols = shape.cols;
  for (size_t col = 0; col < cols; ++col) {
    for (size_t row = 0; row < n_rows; ++row) {
      values[row * cols + col] = load_value(shape, tile_codes, col * kTileRows + row);
    }
  }
}

}  // namespace cria::xnnpack
