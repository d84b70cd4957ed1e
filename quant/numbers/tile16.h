// Layout tile16: how every matrix is stored, in the file and in memory, on every target.
//
// A matrix has rows outputs and cols inputs. 16 output rows make a tile; rows pad to 16 with
// zeros. A matrix is one plane of codes and, for integers, one plane of scales after it:
//
//   codes  [tiles][...]      scales [tiles][...]
//
// kInt4, groups of G = 32, 64 or 128 inputs, cols padded to G with zero codes:
//   codes [tiles][cols_padded / 32][256 bytes]. A block of 32 inputs is 4 lines of 64 bytes. Byte
//   4*row + i of line j (row 0..15, i 0..3, j 0..3) holds
//       low nibble:  input 4*j + i            high nibble: input 4*(j + 4) + i
//   as code + 8, so that a code is -8..7 and a stored nibble is 0..15.
//
//       line j:  | row 0: i=0 1 2 3 | row 1: 0 1 2 3 | ... | row 15: 0 1 2 3 |
//
//   scales [tiles][cols_padded / G][16] bf16. weight = code * scale. Scales are zero or normal
//   numbers, positive unless the model's flags allow others.
//
// kInt4Nl: as kInt4, but a code stands for one of kInt4NlValues: weight = that value * scale.
//
// kInt8, cols padded to 32:
//   codes [tiles][cols_padded / 4][64 bytes]; byte 4*row + i of line j is input 4*j + i, -127..127.
//   scales [tiles][16] f32.
//
// kInt8G32, groups of 32 inputs: codes as kInt8, scales as kInt4, none of them negative.
//
// kBit1 and kBit2, groups of G = 128 or 64 inputs, cols padded to G with zero bits:
//   codes [tiles][cols_padded / G][256 bytes]. A block of G inputs is 4 lines of 64 bytes. Byte
//   4*row + i of line j holds 8 inputs of kBit1, 4 of kBit2, the first in its lowest bits:
//       kBit1, bit b:             input 4*(j + 4*b) + i     weight = (2 * bit - 1) * scale
//       kBit2, bits 2*b, 2*b + 1: input 4*(j + 4*b) + i     weight = (code - 1) * scale
//   So the inputs of an activation group of 32 are two neighbouring bits or codes of each byte.
//   scales [tiles][cols_padded / G][16] f16, finite. Padding is no weight of zero: its inputs are.
//
// kF32, kF16, kBf16, cols not padded:
//   codes [tiles][cols][16] elements; no scales.
//
// Every plane of an integer matrix is a multiple of 64 bytes but the scales' of groups, with an odd
// number of groups a row and an odd number of tiles, which is a multiple of 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/format.h"
#include "quant/numbers/number_formats.h"

namespace cria {

inline constexpr size_t kTileRows = 16;
inline constexpr size_t kInt4BlockInputs = 32;
inline constexpr size_t kInt4BlockBytes = kTileRows * kInt4BlockInputs / 2;
inline constexpr size_t kInt8LineInputs = 4;
inline constexpr int32_t kNibbleZero = 8;  // stored nibble of code 0
inline constexpr size_t kLineBytes = kTileRows * kInt8LineInputs;

struct MatrixShape {
  uint32_t rows;
  uint32_t cols;
  format::NumberFormat number_format;
  uint16_t group_size;  // inputs a scale covers where groups have one; else zero
  [[nodiscard]] constexpr bool operator==(const MatrixShape&) const = default;
};

[[nodiscard]] static constexpr MatrixFormat format_of(const MatrixShape& m) {
  return {m.number_format, m.group_size};
}

[[nodiscard]] static constexpr size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

[[nodiscard]] static constexpr size_t tile_count(uint32_t rows) {
  return (rows + kTileRows - 1) / kTileRows;
}

// Inputs a stored row has: cols padded as the format asks.
[[nodiscard]] static constexpr size_t padded_cols(const MatrixShape& m) {
  const NumberFormatRow& row = row_of(m.number_format);
  return round_up(m.cols, has_group_scales(m.number_format) ? m.group_size : row.input_multiple);
}

// Bytes of one tile (16 rows) in the codes plane, and in the scales plane.
[[nodiscard]] static constexpr uint64_t tile_code_bytes(const MatrixShape& m) {
  constexpr uint64_t kBitsOfByte = 8;
  return uint64_t{padded_cols(m)} * kTileRows * row_of(m.number_format).code_bits / kBitsOfByte;
}

[[nodiscard]] static constexpr uint64_t tile_scale_bytes(const MatrixShape& m) {
  switch (row_of(m.number_format).scales) {
    case Scales::kGroup:
    case Scales::kGroupF16:
      return padded_cols(m) / m.group_size * kTileRows * sizeof(uint16_t);
    case Scales::kRow:
      return kTileRows * sizeof(float);
    case Scales::kNone:
      break;
  }
  return 0;
}

[[nodiscard]] static constexpr uint64_t code_plane_bytes(const MatrixShape& m) {
  return tile_count(m.rows) * tile_code_bytes(m);
}

[[nodiscard]] static constexpr uint64_t scale_plane_bytes(const MatrixShape& m) {
  return tile_count(m.rows) * tile_scale_bytes(m);
}

[[nodiscard]] static constexpr uint64_t matrix_bytes(const MatrixShape& m) {
  return code_plane_bytes(m) + scale_plane_bytes(m);
}

// Packs one tile of a matrix whose scales are those of groups. Rows past n_rows are written as
// zeros (code 0, scale 0; of kBit1 and kBit2 stored bits of 0).
//   codes       [n_rows][padded_cols]  int8: -8..7 or -127..127; of kBit1 and kBit2 the stored bits
//   scales      [n_rows][groups]       bf16 or f16 bits as uint16
//   out_codes   [tile_code_bytes]      overwritten
//   out_scales  [tile_scale_bytes]     overwritten
void pack_group_tile(const MatrixShape& shape, const int8_t* codes, const uint16_t* scales,
                     size_t n_rows, uint8_t* out_codes, uint8_t* out_scales);
// The same of kInt8.
//   scales      [n_rows] f32
void pack_int8_tile(const MatrixShape& shape, const int8_t* codes, const float* scales,
                    size_t n_rows, uint8_t* out_codes, uint8_t* out_scales);
//   values [n_rows][cols] f32, converted to shape.number_format
void pack_float_tile(const MatrixShape& shape, const float* values, size_t n_rows,
                     uint8_t* out_codes);

// Reads one row back as f32: out [cols]. codes and scales are the matrix's planes.
void unpack_row(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales, size_t row,
                float* out);

// The scale of a group, from its 16 bits.
[[nodiscard]] float group_scale(format::NumberFormat number_format, uint16_t bits);

// The code of one weight, for tests and re-packing (integers only).
[[nodiscard]] int unpack_code(const MatrixShape& shape, const uint8_t* codes, size_t row,
                              size_t col);

// What a code stands for: its weight divided by the scale (integers only).
[[nodiscard]] int value_of_code(format::NumberFormat number_format, int code);

}  // namespace cria
