// tile16 tiles as the row-major weights that XNNPACK packs.
#include "runtime/backends/xnnpack/xnnpack_unpack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quant/numbers/float16.h"

namespace cria::xnnpack {
namespace {

using format::NumberFormat;

constexpr uint32_t kSeed = 20241108;
constexpr float kSmallestNormal = std::numeric_limits<float>::min();

struct Int4Tile {
  MatrixShape shape;
  std::vector<int8_t> codes;     // [n_rows][padded_cols]
  std::vector<uint16_t> scales;  // [n_rows][groups]
  std::vector<uint8_t> tile_codes;
  std::vector<uint8_t> tile_scales;
};

void pack(Int4Tile* t, size_t n_rows) {
  t->tile_codes.resize(tile_code_bytes(t->shape));
  t->tile_scales.resize(tile_scale_bytes(t->shape));
  pack_group_tile(t->shape, t->codes.data(), t->scales.data(), n_rows, t->tile_codes.data(),
                  t->tile_scales.data());
}

Int4Tile random_int4_tile(uint32_t cols, uint16_t group_size, size_t n_rows, std::mt19937* random) {
  Int4Tile t = {};
  t.shape = {static_cast<uint32_t>(n_rows), cols, NumberFormat::kInt4, group_size};
  const size_t padded = padded_cols(t.shape);
  t.codes.assign(n_rows * padded, 0);
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t col = 0; col < cols; ++col) {
      t.codes[row * padded + col] = static_cast<int8_t>(int((*random)() % 16) - 8);
    }
  }
  t.scales.resize(n_rows * (padded / group_size));
  for (uint16_t& scale : t.scales) scale = static_cast<uint16_t>(0x3c00 + (*random)() % 256);
  pack(&t, n_rows);
  return t;
}

int nibble(const std::vector<uint8_t>& codes, size_t row_bytes, size_t row, size_t col) {
  const uint8_t byte = codes[row * row_bytes + col / 2];
  return (col % 2 == 0 ? byte & 0x0f : byte >> 4) - 8;
}

TEST(XnnpackUnpack, Int4RowsHoldTheCodesInOrderEvenInputsLow) {
  std::mt19937 random(kSeed);
  size_t n_compared = 0;
  for (const uint16_t group_size : {uint16_t{32}, uint16_t{64}, uint16_t{128}}) {
    for (const uint32_t cols : {1u, 32u, 33u, 100u, 172u, 256u}) {
      for (size_t n_rows = 1; n_rows <= kTileRows; ++n_rows) {
        const Int4Tile t = random_int4_tile(cols, group_size, n_rows, &random);
        const size_t padded = padded_cols(t.shape);
        std::vector<uint8_t> codes(n_rows * padded / 2);
        std::vector<uint16_t> scales(t.scales.size());
        unpack_int4_tile(t.shape, t.tile_codes.data(), t.tile_scales.data(), n_rows, codes.data(),
                         scales.data());
        ASSERT_EQ(scales, t.scales);
        for (size_t i = 0; i < n_rows * padded; ++i) {
          ASSERT_EQ(nibble(codes, padded / 2, i / padded, i % padded), t.codes[i])
              << "group " << group_size << " cols " << cols << " element " << i;
          ++n_compared;
        }
      }
    }
  }
  EXPECT_GT(n_compared, 0u);
}

TEST(XnnpackUnpack, AnInt4GroupWithoutAPositiveNormalScaleBecomesZeros) {
  std::mt19937 random(kSeed);
  constexpr size_t kRows = 16;
  // Zero, minus zero, subnormal, negative, infinite, not a number; then the smallest good one.
  const uint16_t bits[] = {0x0000, 0x8000, 0x007f, 0xbf80, 0x7f80, 0x7fc0, 0x0080};
  constexpr size_t kBad = 6;
  for (size_t i = 0; i <= kBad; ++i) {
    Int4Tile t = random_int4_tile(128, 64, kRows, &random);
    constexpr size_t kRow = 5;
    t.scales[kRow * 2 + 1] = bits[i];
    t.codes[kRow * 128 + 64] = 7;
    pack(&t, kRows);
    std::vector<uint8_t> codes(kRows * 64);
    std::vector<uint16_t> scales(kRows * 2);
    unpack_int4_tile(t.shape, t.tile_codes.data(), t.tile_scales.data(), kRows, codes.data(),
                     scales.data());
    EXPECT_EQ(bf16_to_f32(scales[kRow * 2 + 1]), kSmallestNormal);
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t col = 0; col < 128; ++col) {
        const bool is_zeroed = i < kBad && row == kRow && col >= 64;
        ASSERT_EQ(nibble(codes, 64, row, col), is_zeroed ? 0 : t.codes[row * 128 + col]);
      }
    }
  }
}

TEST(XnnpackUnpack, Int8RowsHoldTheCodesAndBadScalesBecomeZeros) {
  std::mt19937 random(kSeed);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float bad[] = {0.0f, -0.0f, kSmallestNormal / 2, -1.0f, kInfinity, std::nanf("")};
  size_t n_compared = 0;
  for (const uint32_t cols : {1u, 32u, 33u, 172u}) {
    for (size_t n_rows = 1; n_rows <= kTileRows; ++n_rows) {
      const MatrixShape shape = {static_cast<uint32_t>(n_rows), cols, NumberFormat::kInt8, 0};
      const size_t padded = padded_cols(shape);
      std::vector<int8_t> in(n_rows * padded, 0);
      std::vector<float> in_scales(n_rows);
      for (size_t row = 0; row < n_rows; ++row) {
        const size_t kind = random() % 12;
        in_scales[row] = kind < std::size(bad) ? bad[kind] : 0.25f * static_cast<float>(kind);
        for (size_t col = 0; col < cols; ++col) {
          in[row * padded + col] = static_cast<int8_t>(int(random() % 255) - 127);
        }
      }
      std::vector<uint8_t> tile_codes(tile_code_bytes(shape));
      std::vector<uint8_t> tile_scales(tile_scale_bytes(shape));
      pack_int8_tile(shape, in.data(), in_scales.data(), n_rows, tile_codes.data(),
                     tile_scales.data());
      std::vector<int8_t> codes(n_rows * padded);
      std::vector<float> scales(n_rows);
      unpack_int8_tile(shape, tile_codes.data(), tile_scales.data(), n_rows, codes.data(),
                       scales.data());
      for (size_t i = 0; i < codes.size(); ++i) {
        const bool is_good = std::isnormal(in_scales[i / padded]) && in_scales[i / padded] > 0;
        ASSERT_EQ(scales[i / padded], is_good ? in_scales[i / padded] : kSmallestNormal);
        ASSERT_EQ(codes[i], is_good ? in[i] : 0);
        ++n_compared;
      }
    }
  }
  EXPECT_GT(n_compared, 0u);
}

TEST(XnnpackUnpack, FloatRowsHoldTheValuesOfEachFormat) {
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  size_t n_compared = 0;
  for (const NumberFormat number_format :
       {NumberFormat::kF32, NumberFormat::kF16, NumberFormat::kBf16}) {
    for (const uint32_t cols : {1u, 7u, 64u}) {
      for (const size_t n_rows : {size_t{1}, size_t{9}, kTileRows}) {
        const MatrixShape shape = {static_cast<uint32_t>(n_rows), cols, number_format, 0};
        std::vector<float> in(n_rows * cols);
        for (float& value : in) value = normal(random);
        std::vector<uint8_t> tile(tile_code_bytes(shape));
        pack_float_tile(shape, in.data(), n_rows, tile.data());
        std::vector<float> out(n_rows * cols);
        unpack_float_tile(shape, tile.data(), n_rows, out.data());
        std::vector<float> row(cols);
        for (size_t r = 0; r < n_rows; ++r) {
          unpack_row(shape, tile.data(), nullptr, r, row.data());
          for (size_t col = 0; col < cols; ++col, ++n_compared) {
            ASSERT_EQ(out[r * cols + col], row[col]);
          }
        }
      }
    }
  }
  EXPECT_GT(n_compared, 0u);
}

}  // namespace
}  // namespace cria::xnnpack
