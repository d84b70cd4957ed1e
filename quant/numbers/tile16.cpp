#include "quant/numbers/tile16.h"

#include <cstring>

#include "quant/numbers/float16.h"

namespace cria {
namespace {

using format::NumberFormat;

constexpr uint8_t kZeroPair = 0x88;  // two codes of zero
// The same of the bytes of a word.
constexpr uint32_t kZeroPairs = 0x88888888;
constexpr uint32_t kLowNibbles = 0x0f0f0f0f;

// Place of a code of less than a byte in a tile: byte, and the bits below it there.
struct BitPlace {
  size_t byte;
  size_t shift;
};

// Of (row, col). Lines 0..3 of a block hold quads of inputs 0..3, then 4..7 in the next bits...
BitPlace bit_place(size_t code_bits, size_t row_in_tile, size_t col) {
  constexpr size_t kLines = kInt4BlockBytes / kLineBytes;
  const size_t block_inputs = kInt4BlockInputs * 4 / code_bits;
  const size_t in_block = col % block_inputs;
  const size_t quad = in_block / 4;
  return {col / block_inputs * kInt4BlockBytes + quad % kLines * kLineBytes + row_in_tile * 4 +
              in_block % 4,
          quad / kLines * code_bits};
}

size_t int8_place(size_t row_in_tile, size_t col) {
  return col / kInt8LineInputs * kLineBytes + row_in_tile * 4 + col % kInt8LineInputs;
}

void pack_group_scales(const MatrixShape& shape, const uint16_t* scales, size_t n_rows,
                       uint8_t* out) {
  const size_t n_groups = padded_cols(shape) / shape.group_size;
  std::memset(out, 0, static_cast<size_t>(tile_scale_bytes(shape)));
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t group = 0; group < n_groups; ++group) {
      std::memcpy(out + (group * kTileRows + row) * 2, &scales[row * n_groups + group], 2);
    }
  }
}

void pack_int8_codes(const MatrixShape& shape, const int8_t* codes, size_t n_rows, uint8_t* out) {
  const size_t cols = padded_cols(shape);
  std::memset(out, 0, static_cast<size_t>(tile_code_bytes(shape)));
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t col = 0; col < cols; col += kInt8LineInputs) {
      std::memcpy(out + int8_place(row, col), codes + row * cols + col, kInt8LineInputs);
    }
  }
}

void pack_nibbles(const MatrixShape& shape, const int8_t* codes, size_t n_rows, uint8_t* out) {
  const size_t cols = padded_cols(shape);
  std::memset(out, kZeroPair, static_cast<size_t>(tile_code_bytes(shape)));
  for (size_t row = 0; row < n_rows; ++row) {
    const int8_t* in = codes + row * cols;
    for (size_t block = 0; block < cols / kInt4BlockInputs; ++block) {
      for (size_t line = 0; line < 4; ++line) {
        uint8_t* to = out + block * kInt4BlockBytes + line * kLineBytes + row * 4;
        const int8_t* from = in + block * kInt4BlockInputs + line * 4;
        uint32_t low, high;
        std::memcpy(&low, from, sizeof low);
        std::memcpy(&high, from + kInt4BlockInputs / 2, sizeof high);
        // A nibble is code + 8: the code's low bits with the highest of them turned.
        const uint32_t pairs = ((low & kLowNibbles) | (high & kLowNibbles) << 4) ^ kZeroPairs;
        std::memcpy(to, &pairs, sizeof pairs);
      }
    }
  }
}

void pack_bits(const MatrixShape& shape, const int8_t* codes, size_t n_rows, uint8_t* out) {
  const size_t cols = padded_cols(shape);
  std::memset(out, 0, static_cast<size_t>(tile_code_bytes(shape)));
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t col = 0; col < cols; ++col) {
      const BitPlace place = bit_place(row_of(shape.number_format).code_bits, row, col);
      const auto bits = static_cast<unsigned>(codes[row * cols + col]) << place.shift;
      out[place.byte] = static_cast<uint8_t>(out[place.byte] | bits);
    }
  }
}

}  // namespace

void pack_group_tile(const MatrixShape& shape, const int8_t* codes, const uint16_t* scales,
                     size_t n_rows, uint8_t* out_codes, uint8_t* out_scales) {
  if (has_nibbles(shape.number_format)) {
    pack_nibbles(shape, codes, n_rows, out_codes);
  } else if (row_of(shape.number_format).code_bits == 8) {
    pack_int8_codes(shape, codes, n_rows, out_codes);
  } else {
    pack_bits(shape, codes, n_rows, out_codes);
  }
  pack_group_scales(shape, scales, n_rows, out_scales);
}

void pack_int8_tile(const MatrixShape& shape, const int8_t* codes, const float* scales,
                    size_t n_rows, uint8_t* out_codes, uint8_t* out_scales) {
  pack_int8_codes(shape, codes, n_rows, out_codes);
  std::memset(out_scales, 0, static_cast<size_t>(tile_scale_bytes(shape)));
  std::memcpy(out_scales, scales, n_rows * sizeof(float));
}

void pack_float_tile(const MatrixShape& shape, const float* values, size_t n_rows,
                     uint8_t* out_codes) {
  std::memset(out_codes, 0, static_cast<size_t>(tile_code_bytes(shape)));
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t col = 0; col < shape.cols; ++col) {
      const float value = values[row * shape.cols + col];
      const size_t element = col * kTileRows + row;
      if (shape.number_format == NumberFormat::kF32) {
        std::memcpy(out_codes + element * 4, &value, 4);
      } else {
        const uint16_t bits =
            shape.number_format == NumberFormat::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
        std::memcpy(out_codes + element * 2, &bits, 2);
      }
    }
  }
}

float group_scale(NumberFormat number_format, uint16_t bits) {
  return has_f16_scales(number_format) ? f16_to_f32(bits) : bf16_to_f32(bits);
}

int value_of_code(NumberFormat number_format, int code) {
  if (number_format == NumberFormat::kBit1) return 2 * code - 1;
  if (number_format == NumberFormat::kBit2) return code - 1;
  return number_format == NumberFormat::kInt4Nl ? kInt4NlValues[code + kNibbleZero] : code;
}

int unpack_code(const MatrixShape& shape, const uint8_t* codes, size_t row, size_t col) {
  const uint8_t* tile = codes + row / kTileRows * tile_code_bytes(shape);
  const size_t row_in_tile = row % kTileRows;
  const size_t code_bits = row_of(shape.number_format).code_bits;
  if (code_bits == 8) return static_cast<int8_t>(tile[int8_place(row_in_tile, col)]);
  const BitPlace place = bit_place(code_bits, row_in_tile, col);
  const int code = tile[place.byte] >> place.shift & ((1 << code_bits) - 1);
  return has_nibbles(shape.number_format) ? code - kNibbleZero : code;
}

void unpack_row(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales, size_t row,
                float* out) {
  const size_t row_in_tile = row % kTileRows;
  const uint8_t* tile = codes + row / kTileRows * tile_code_bytes(shape);
  const uint8_t* tile_scales = scales + row / kTileRows * tile_scale_bytes(shape);
  switch (shape.number_format) {
    case NumberFormat::kInt4:
    case NumberFormat::kInt4Nl:
    case NumberFormat::kInt8G32:
    case NumberFormat::kBit1:
    case NumberFormat::kBit2:
      for (size_t col = 0; col < shape.cols; ++col) {
        uint16_t bits;
        const size_t group = col / shape.group_size;
        std::memcpy(&bits, tile_scales + (group * kTileRows + row_in_tile) * 2, 2);
        const int code = unpack_code(shape, codes, row, col);
        out[col] = static_cast<float>(value_of_code(shape.number_format, code)) *
                   group_scale(shape.number_format, bits);
      }
      return;
    case NumberFormat::kInt8: {
      float scale;
      std::memcpy(&scale, tile_scales + row_in_tile * 4, 4);
      for (size_t col = 0; col < shape.cols; ++col) {
        out[col] = static_cast<float>(unpack_code(shape, codes, row, col)) * scale;
      }
      return;
    }
    case NumberFormat::kF32:
      for (size_t col = 0; col < shape.cols; ++col) {
        std::memcpy(&out[col], tile + (col * kTileRows + row_in_tile) * 4, 4);
      }
      return;
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
      for (size_t col = 0; col < shape.cols; ++col) {
        uint16_t bits;
        std::memcpy(&bits, tile + (col * kTileRows + row_in_tile) * 2, 2);
        out[col] = shape.number_format == NumberFormat::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
      }
      return;
  }
}

}  // namespace cria
