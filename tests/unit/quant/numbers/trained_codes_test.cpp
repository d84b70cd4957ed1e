#include "quant/numbers/trained_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "quant/numbers/float16.h"

namespace cria {
namespace {

using format::NumberFormat;

struct Found {
  bool are_exact;
  std::vector<int8_t> codes;
  std::vector<uint16_t> scales;
};

Found find(const MatrixShape& shape, const std::vector<float>& weights) {
  const size_t n_rows = weights.size() / shape.cols;
  Found found = {false, std::vector<int8_t>(n_rows * padded_cols(shape), 99), {}};
  found.scales.resize(found.codes.size() / shape.group_size);
  found.are_exact =
      find_exact_bits(shape, weights.data(), n_rows, found.codes.data(), found.scales.data());
  return found;
}

MatrixShape bit1(uint32_t cols) { return {1, cols, NumberFormat::kBit1, 128}; }
MatrixShape bit2(uint32_t cols) { return {1, cols, NumberFormat::kBit2, 64}; }

// The scale that a group of these weights gets; NaN where it gets none.
float scale_of(const MatrixShape& shape, const std::vector<float>& weights) {
  const Found found = find(shape, weights);
  return found.are_exact ? f16_to_f32(found.scales[0]) : std::nanf("");
}

TEST(TrainedCodes, GiveEveryWeightOfEveryScaleBack) {
  std::mt19937 random(7);
  size_t compared = 0;
  for (const MatrixFormat f : {MatrixFormat{NumberFormat::kBit1, 128}, {NumberFormat::kBit2, 64}}) {
    for (uint32_t bits = 0; bits < 0x10000; bits += 13) {
      const float scale = f16_to_f32(static_cast<uint16_t>(bits));
      if (!std::isfinite(scale)) continue;
      const MatrixShape shape = {2, 130, f.number_format, f.group_size};
      std::vector<float> weights(2 * shape.cols);
      for (float& w : weights) {
        const int code = static_cast<int>(random() % (1u << row_of(f.number_format).code_bits));
        w = static_cast<float>(value_of_code(f.number_format, code)) * scale;
      }
      const Found found = find(shape, weights);
      ASSERT_TRUE(found.are_exact) << std::hex << bits;
      const size_t padded = padded_cols(shape);
      for (size_t i = 0; i < 2 * padded; ++i) {
        if (i % padded >= shape.cols) {
          ASSERT_EQ(found.codes[i], 0);
          continue;
        }
        const float stored = f16_to_f32(found.scales[i / f.group_size]);
        const auto value = static_cast<float>(value_of_code(f.number_format, found.codes[i]));
        ASSERT_EQ(value * stored, weights[i / padded * shape.cols + i % padded])
            << std::hex << bits;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1000000u);
}

TEST(TrainedCodes, TakeTheLargestScaleAndThePositiveOne) {
  EXPECT_EQ(scale_of(bit1(3), {-0.5f, 0.5f, -0.5f}), 0.5f);
  EXPECT_EQ(scale_of(bit2(3), {-0.5f, 0.5f, 0.0f}), 0.5f);
  EXPECT_EQ(scale_of(bit2(2), {0.5f, 0.0f}), 0.5f);
  EXPECT_EQ(scale_of(bit2(2), {0.5f, 0.25f}), 0.25f);
  EXPECT_EQ(scale_of(bit2(3), {-0.5f, 0.25f, -0.25f}), -0.25f);
  EXPECT_EQ(scale_of(bit2(2), {65504.0f, 0.0f}), 65504.0f);
  // Twice the largest scale.
  EXPECT_EQ(scale_of(bit2(2), {131008.0f, 0.0f}), 65504.0f);
  EXPECT_EQ(scale_of(bit2(2), {0.0f, -0.0f}), 0.0f);
  EXPECT_EQ(scale_of(bit1(2), {0.0f, -0.0f}), 0.0f);
}

TEST(TrainedCodes, RoundNothing) {
  EXPECT_TRUE(std::isnan(scale_of(bit1(2), {0.5f, 0.25f})));
  EXPECT_TRUE(std::isnan(scale_of(bit1(2), {0.5f, 0.0f})));
  EXPECT_TRUE(std::isnan(scale_of(bit1(1), {0.1f}))) << "no f16";
  EXPECT_TRUE(std::isnan(scale_of(bit1(1), {0x1p-25f}))) << "too small for one";
  EXPECT_TRUE(std::isnan(scale_of(bit1(1), {65536.0f}))) << "too large for one";
  EXPECT_TRUE(std::isnan(scale_of(bit2(1), {0.1f})));
  EXPECT_TRUE(std::isnan(scale_of(bit2(2), {0.5f, 0.125f})));
  EXPECT_TRUE(std::isnan(scale_of(bit2(3), {0.5f, 0.25f, -0.5f}))) << "-2 is no code's value";
}

// A row that is exact does not make up for another.
TEST(TrainedCodes, LookAtEveryGroupOfEveryRow) {
  for (size_t bad = 0; bad < 2 * 130; ++bad) {
    std::vector<float> weights(2 * 130, 0.5f);
    weights[bad] = 0.375f;
    EXPECT_FALSE(find({2, 130, NumberFormat::kBit1, 128}, weights).are_exact) << bad;
  }
}

}  // namespace
}  // namespace cria
