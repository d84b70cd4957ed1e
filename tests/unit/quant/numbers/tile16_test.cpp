#include "quant/numbers/tile16.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "quant/numbers/float16.h"

namespace cria {
namespace {

using format::NumberFormat;

struct Packed {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

// Hand-packed bytes: the layout's formula written out for one row, independent of the packer.
TEST(Tile16, Int4BytesStandWhereTheFormatSays) {
  const MatrixShape shape = {2, 32, NumberFormat::kInt4, 32};
  std::vector<int8_t> codes(64, 0);
  for (int i = 0; i < 32; ++i) codes[static_cast<size_t>(32 + i)] = static_cast<int8_t>(i % 16 - 8);
  const std::vector<uint16_t> scales = {0x3f80, 0x4000};  // 1 and 2
  Packed out = {std::vector<uint8_t>(256, 0xcc), std::vector<uint8_t>(32, 0xcc)};
  pack_group_tile(shape, codes.data(), scales.data(), 2, out.codes.data(), out.scales.data());
  // Row 1, line j, byte i: low nibble input 4j + i, high nibble input 16 + 4j + i, each as the code
  // + 8. With codes i % 16 - 8 both are 4j + i.
  for (uint8_t j = 0; j < 4; ++j) {
    for (uint8_t i = 0; i < 4; ++i) {
      const uint8_t nibble = static_cast<uint8_t>(4 * j + i);
      EXPECT_EQ(out.codes[64u * j + 4u + i], nibble | nibble << 4) << int(j) << " " << int(i);
      EXPECT_EQ(out.codes[64u * j + i], 0x88) << "row 0 is zero";
      EXPECT_EQ(out.codes[64u * j + 4u * 15 + i], 0x88) << "row 15 is padding";
    }
  }
  const std::vector<uint8_t> want = {0x80, 0x3f, 0x00, 0x40};
  EXPECT_EQ(std::vector<uint8_t>(out.scales.begin(), out.scales.begin() + 4), want);
  for (size_t i = 4; i < 32; ++i) EXPECT_EQ(out.scales[i], 0);
}

TEST(Tile16, Int4NibblesOfDifferentHalvesDiffer) {
  const MatrixShape shape = {1, 32, NumberFormat::kInt4, 32};
  std::vector<int8_t> codes(32, 0);
  codes[0] = -8;   // line 0, byte 0, low
  codes[16] = 7;   // line 0, byte 0, high
  codes[15] = 3;   // line 3, byte 3, low
  codes[31] = -1;  // line 3, byte 3, high
  const uint16_t scale = 0x3f80;
  Packed out = {std::vector<uint8_t>(256), std::vector<uint8_t>(32)};
  pack_group_tile(shape, codes.data(), &scale, 1, out.codes.data(), out.scales.data());
  EXPECT_EQ(out.codes[0], 0xf0);
  EXPECT_EQ(out.codes[3 * 64 + 3], 0x7b);
}

TEST(Tile16, Int8BytesStandWhereTheFormatSays) {
  const MatrixShape shape = {3, 7, NumberFormat::kInt8, 0};
  std::vector<int8_t> codes(3 * 32, 0);
  for (size_t col = 0; col < 7; ++col) codes[2 * 32 + col] = static_cast<int8_t>(10 + col);
  const std::vector<float> scales = {1.0f, 2.0f, 0.5f};
  Packed out = {std::vector<uint8_t>(512, 0xcc), std::vector<uint8_t>(64, 0xcc)};
  pack_int8_tile(shape, codes.data(), scales.data(), 3, out.codes.data(), out.scales.data());
  EXPECT_EQ(out.codes[4 * 2 + 0], 10);
  EXPECT_EQ(out.codes[4 * 2 + 3], 13);
  EXPECT_EQ(out.codes[64 + 4 * 2 + 0], 14);
  EXPECT_EQ(out.codes[64 + 4 * 2 + 2], 16);
  EXPECT_EQ(out.codes[64 + 4 * 2 + 3], 0);
  float scale;
  std::memcpy(&scale, out.scales.data() + 8, 4);
  EXPECT_EQ(scale, 0.5f);
}

TEST(Tile16, Int8BytesWithScalesOfGroupsStandWhereTheFormatSays) {
  const MatrixShape shape = {3, 33, NumberFormat::kInt8G32, 32};
  std::vector<int8_t> codes(3 * 64, 0);
  codes[2 * 64 + 7] = -127;
  codes[2 * 64 + 32] = 99;
  const std::vector<uint16_t> scales = {1, 2, 3, 4, 5, 0x3f80};  // of a row one after the other
  Packed out = {std::vector<uint8_t>(1024, 0xcc), std::vector<uint8_t>(64, 0xcc)};
  pack_group_tile(shape, codes.data(), scales.data(), 3, out.codes.data(), out.scales.data());
  EXPECT_EQ(out.codes[64 + 4 * 2 + 3], 0x81);  // line 1, row 2, the last of its four inputs
  EXPECT_EQ(out.codes[8 * 64 + 4 * 2], 99);
  const std::vector<uint8_t> first_group = {1, 0, 3, 0, 5, 0, 0, 0};
  const std::vector<uint8_t> second_group = {2, 0, 4, 0, 0x80, 0x3f, 0, 0};
  EXPECT_EQ(std::vector<uint8_t>(out.scales.begin(), out.scales.begin() + 8), first_group);
  EXPECT_EQ(std::vector<uint8_t>(out.scales.begin() + 32, out.scales.begin() + 40), second_group);
  for (size_t i = 8; i < 32; ++i) EXPECT_EQ(out.scales[i] | out.scales[32 + i], 0) << i;
}

TEST(Tile16, TrainedBitsStandWhereTheFormatSays) {
  const MatrixShape shape = {3, 130, NumberFormat::kBit1, 128};
  std::vector<int8_t> codes(3 * 256, 0);
  codes[2 * 256 + 6] = 1;        // line 1, byte 2, bit 0
  codes[2 * 256 + 16 + 6] = 1;   // the same byte, bit 1
  codes[2 * 256 + 127] = 1;      // line 3, byte 3, bit 7
  codes[2 * 256 + 128 + 1] = 1;  // the next block's line 0, byte 1, bit 0
  const std::vector<uint16_t> scales = {1, 2, 3, 4, 5, 0x3c00};
  Packed out = {std::vector<uint8_t>(512, 0xcc), std::vector<uint8_t>(64, 0xcc)};
  pack_group_tile(shape, codes.data(), scales.data(), 3, out.codes.data(), out.scales.data());
  std::vector<uint8_t> want(512, 0);
  want[64 + 4 * 2 + 2] = 0x03;
  want[3 * 64 + 4 * 2 + 3] = 0x80;
  want[256 + 4 * 2 + 1] = 0x01;
  EXPECT_EQ(out.codes, want);
  const std::vector<uint8_t> second_group = {2, 0, 4, 0, 0x00, 0x3c, 0, 0};
  EXPECT_EQ(std::vector<uint8_t>(out.scales.begin() + 32, out.scales.begin() + 40), second_group);
  std::vector<float> row(130);
  unpack_row(shape, out.codes.data(), out.scales.data(), 2, row.data());
  EXPECT_EQ(row[129], 1.0f);
  EXPECT_EQ(row[128], -1.0f);
}

TEST(Tile16, TrainedPairsOfBitsStandWhereTheFormatSays) {
  const MatrixShape shape = {1, 64, NumberFormat::kBit2, 64};
  std::vector<int8_t> codes(64, 0);
  codes[0] = 1;   // line 0, byte 0, bits 0 and 1
  codes[16] = 2;  // the same byte, bits 2 and 3
  codes[32] = 3;
  codes[48] = 1;
  codes[63] = 2;                  // line 3, byte 3, bits 6 and 7
  const uint16_t scale = 0xc000;  // -2
  Packed out = {std::vector<uint8_t>(256, 0xcc), std::vector<uint8_t>(32, 0xcc)};
  pack_group_tile(shape, codes.data(), &scale, 1, out.codes.data(), out.scales.data());
  std::vector<uint8_t> want(256, 0);
  want[0] = 0x79;
  want[3 * 64 + 3] = 0x80;
  EXPECT_EQ(out.codes, want);
  std::vector<float> row(64);
  unpack_row(shape, out.codes.data(), out.scales.data(), 0, row.data());
  EXPECT_EQ(row[0], 0.0f);
  EXPECT_EQ(row[1], 2.0f);
  EXPECT_EQ(row[16], -2.0f);
  EXPECT_EQ(row[32], -4.0f);
}

TEST(Tile16, FloatTilesStandColumnByColumn) {
  const MatrixShape shape = {2, 3, NumberFormat::kBf16, 0};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<uint8_t> codes(96, 0xcc);
  pack_float_tile(shape, values.data(), 2, codes.data());
  const auto at = [&](size_t col, size_t row) {
    uint16_t bits;
    std::memcpy(&bits, codes.data() + (col * 16 + row) * 2, 2);
    return bf16_to_f32(bits);
  };
  EXPECT_EQ(at(0, 0), 1.0f);
  EXPECT_EQ(at(2, 0), 3.0f);
  EXPECT_EQ(at(1, 1), 5.0f);
  EXPECT_EQ(at(1, 2), 0.0f);
}

TEST(Tile16, SizesFollowFromTheShape) {
  EXPECT_EQ(padded_cols({5, 172, NumberFormat::kInt4, 64}), 192u);
  EXPECT_EQ(padded_cols({5, 172, NumberFormat::kInt8, 0}), 192u);
  EXPECT_EQ(padded_cols({5, 172, NumberFormat::kInt8G32, 32}), 192u);
  EXPECT_EQ(padded_cols({5, 172, NumberFormat::kF32, 0}), 172u);
  EXPECT_EQ(matrix_bytes({17, 128, NumberFormat::kInt4, 128}), 2u * (128 * 8 + 32));
  EXPECT_EQ(matrix_bytes({17, 128, NumberFormat::kInt4, 32}), 2u * (128 * 8 + 4 * 32));
  EXPECT_EQ(matrix_bytes({16, 64, NumberFormat::kInt8, 0}), 64u * 16 + 64);
  EXPECT_EQ(matrix_bytes({17, 64, NumberFormat::kInt8G32, 32}), 2u * (64 * 16 + 2 * 32));
  EXPECT_EQ(padded_cols({5, 172, NumberFormat::kBit1, 128}), 256u);
  EXPECT_EQ(matrix_bytes({17, 129, NumberFormat::kBit1, 128}), 2u * (2 * 256 + 2 * 32));
  EXPECT_EQ(matrix_bytes({17, 129, NumberFormat::kBit2, 64}), 2u * (3 * 256 + 3 * 32));
  EXPECT_EQ(matrix_bytes({16, 3, NumberFormat::kF16, 0}), 3u * 16 * 2);
}

TEST(Tile16, UnpackingARowGivesCodesTimesScales) {
  std::mt19937 random(3);
  size_t compared = 0;
  for (const MatrixFormat& f : kMatrixFormats) {
    if (f.group_size == 0) continue;
    const auto group = f.group_size;
    const bool is_int4 = has_nibbles(f.number_format);
    const bool is_bits = is_trained_bits(f.number_format);
    const int last_bits = (1 << row_of(f.number_format).code_bits) - 1;
    for (const uint32_t rows : {1u, 15u, 16u, 17u, 33u}) {
      for (const uint32_t cols : {1u, 31u, 32u, 33u, 130u}) {
        const MatrixShape shape = {rows, cols, f.number_format, group};
        const size_t padded = padded_cols(shape);
        const size_t n_groups = padded / group;
        std::vector<int8_t> codes(rows * padded, 0);
        std::vector<uint16_t> scales(rows * n_groups);
        for (size_t r = 0; r < rows; ++r) {
          for (size_t c = 0; c < cols; ++c) {
            const int code = is_int4 ? int(random() % 16) - 8 : int(random() % 255) - 127;
            codes[r * padded + c] = static_cast<int8_t>(is_bits ? code & last_bits : code);
          }
        }
        for (uint16_t& s : scales) {
          const float scale = 0.001f * static_cast<float>(1 + random() % 99);
          s = is_bits ? f32_to_f16(scale) : f32_to_bf16(scale);
        }
        Packed out = {std::vector<uint8_t>(static_cast<size_t>(code_plane_bytes(shape))),
                      std::vector<uint8_t>(static_cast<size_t>(scale_plane_bytes(shape)))};
        for (size_t tile = 0; tile < tile_count(rows); ++tile) {
          const size_t first = tile * 16;
          pack_group_tile(shape, &codes[first * padded], &scales[first * n_groups],
                          std::min<size_t>(16, rows - first),
                          &out.codes[tile * static_cast<size_t>(tile_code_bytes(shape))],
                          &out.scales[tile * static_cast<size_t>(tile_scale_bytes(shape))]);
        }
        std::vector<float> row(cols);
        for (size_t r = 0; r < rows; ++r) {
          unpack_row(shape, out.codes.data(), out.scales.data(), r, row.data());
          for (size_t c = 0; c < cols; ++c, ++compared) {
            const uint16_t bits = scales[r * n_groups + c / group];
            const float scale = is_bits ? f16_to_f32(bits) : bf16_to_f32(bits);
            const int value = value_of_code(f.number_format, codes[r * padded + c]);
            ASSERT_EQ(row[c], static_cast<float>(value) * scale);
            ASSERT_EQ(unpack_code(shape, out.codes.data(), r, c), codes[r * padded + c]);
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 10000u);
}

}  // namespace
}  // namespace cria
