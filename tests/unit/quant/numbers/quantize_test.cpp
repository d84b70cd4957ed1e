#include "quant/numbers/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "quant/model/tensor_check.h"
#include "quant/numbers/float16.h"
#include "tests/support/random_values.h"
#include "tests/support/seeds.h"

namespace cria {
namespace {

std::vector<float> gaussian(size_t n, uint32_t seed) { return test::random_values(n, seed, 0.02f); }

struct Int4Row {
  std::vector<int8_t> codes;
  std::vector<uint16_t> scales;
};

MatrixShape int4_shape(size_t cols, size_t group,
                       format::NumberFormat f = format::NumberFormat::kInt4) {
  return {1, static_cast<uint32_t>(cols), f, static_cast<uint16_t>(group)};
}

Int4Row quantize4(const std::vector<float>& w, size_t group, QuantMethod method,
                  ScaleSigns signs = ScaleSigns::kPositive) {
  const MatrixShape shape = int4_shape(w.size(), group);
  const size_t padded = padded_cols(shape);
  Int4Row row = {std::vector<int8_t>(padded, 99), std::vector<uint16_t>(padded / group)};
  quantize_groups(shape, w.data(), 1, method, signs, row.codes.data(), row.scales.data());
  return row;
}

double sqnr_db(const ErrorSums& sums) { return 10 * std::log10(sums.signal / sums.noise); }

TEST(Quantize, RoundToNearestErrsByAtMostHalfAStep) {
  const std::vector<float> w = gaussian(4096, 1);
  for (const size_t group : {32u, 64u, 128u}) {
    const Int4Row row = quantize4(w, group, QuantMethod::kRtn);
    for (size_t i = 0; i < w.size(); ++i) {
      const float scale = bf16_to_f32(row.scales[i / group]);
      // The scale is rounded to 8 significant bits, so at code 8 the grid may end 8 * 2^-9 of a
      // step early; half a step otherwise.
      EXPECT_LE(std::fabs(w[i] - static_cast<float>(row.codes[i]) * scale),
                scale * (0.5f + 8 * 0x1p-9f) * 1.0001f);
      EXPECT_GE(row.codes[i], -8);
      EXPECT_LE(row.codes[i], 7);
    }
  }
}

// The sum that the search minimizes: |w| * error^2.
double weighted_noise(const std::vector<float>& w, const Int4Row& row, size_t group) {
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    const double error = static_cast<double>(w[i]) -
                         row.codes[i] * static_cast<double>(bf16_to_f32(row.scales[i / group]));
    sum += std::fabs(static_cast<double>(w[i])) * error * error;
  }
  return sum;
}

TEST(Quantize, SearchedScalesAreNeverWorseThanRoundToNearest) {
  for (const size_t group : {32u, 64u, 128u}) {
    const std::vector<float> w = gaussian(group * 200, 2);
    ErrorSums rtn, mse;
    size_t better = 0;
    for (size_t g = 0; g < 200; ++g) {
      const std::vector<float> part(w.begin() + static_cast<ptrdiff_t>(g * group),
                                    w.begin() + static_cast<ptrdiff_t>((g + 1) * group));
      ErrorSums a, b;
      const Int4Row r = quantize4(part, group, QuantMethod::kRtn);
      const Int4Row m = quantize4(part, group, QuantMethod::kMse);
      const MatrixShape shape = int4_shape(group, group);
      add_error_groups(shape, part.data(), r.codes.data(), r.scales.data(), &a);
      add_error_groups(shape, part.data(), m.codes.data(), m.scales.data(), &b);
      const double before = weighted_noise(part, r, group);
      const double after = weighted_noise(part, m, group);
      EXPECT_LE(after, before * 1.0001);
      better += after < before * 0.999 ? 1 : 0;
      rtn.signal += a.signal;
      rtn.noise += a.noise;
      mse.signal += b.signal;
      mse.noise += b.noise;
    }
    std::printf("group %zu: rtn %.2f dB, mse %.2f dB\n", group, sqnr_db(rtn), sqnr_db(mse));
    EXPECT_GT(better, 100u);
    EXPECT_GT(sqnr_db(mse), sqnr_db(rtn) + 0.3);
  }
}

TEST(Quantize, WithSignedScalesTheLargestWeightTakesTheLowestCode) {
  for (const float largest : {0.75f, -0.75f}) {
    std::vector<float> w = gaussian(32, 6);
    w[11] = largest;
    const Int4Row row = quantize4(w, 32, QuantMethod::kRtn, ScaleSigns::kBoth);
    EXPECT_EQ(row.codes[11], -8);
    EXPECT_EQ(bf16_to_f32(row.scales[0]), largest / -8);
  }
}

TEST(Quantize, SignedScalesErrLessThanPositiveOnes) {
  for (const size_t group : {32u, 64u, 128u}) {
    constexpr size_t kGroups = 200;
    const std::vector<float> w = gaussian(group * kGroups, 3);
    size_t n_negative = 0;
    double before = 0;
    double after = 0;
    for (size_t g = 0; g < kGroups; ++g) {
      const auto begin = w.begin() + static_cast<ptrdiff_t>(g * group);
      const std::vector<float> part(begin, begin + static_cast<ptrdiff_t>(group));
      const Int4Row positive = quantize4(part, group, QuantMethod::kMse);
      const Int4Row any = quantize4(part, group, QuantMethod::kMse, ScaleSigns::kBoth);
      // The last try, least squares, begins at another scale, and may end a little worse.
      EXPECT_LE(weighted_noise(part, any, group), weighted_noise(part, positive, group) * 1.05);
      before += weighted_noise(part, positive, group);
      after += weighted_noise(part, any, group);
      n_negative += bf16_to_f32(any.scales[0]) < 0 ? 1 : 0;
    }
    std::printf("group %zu: %.4f of the error, %zu negative\n", group, after / before, n_negative);
    EXPECT_LT(after, before * 0.93);
    EXPECT_GT(n_negative, kGroups / 3);
    EXPECT_LT(n_negative, kGroups * 2 / 3);
  }
}

Int4Row quantize_nl(const std::vector<float>& w, size_t group, QuantMethod method,
                    ScaleSigns signs) {
  const MatrixShape shape = int4_shape(w.size(), group, format::NumberFormat::kInt4Nl);
  const size_t padded = padded_cols(shape);
  Int4Row row = {std::vector<int8_t>(padded, 99), std::vector<uint16_t>(padded / group)};
  quantize_groups(shape, w.data(), 1, method, signs, row.codes.data(), row.scales.data());
  return row;
}

TEST(Quantize, UnevenCodesAreThoseOfTheNextValue) {
  for (const ScaleSigns signs : {ScaleSigns::kPositive, ScaleSigns::kBoth}) {
    for (const QuantMethod method : {QuantMethod::kRtn, QuantMethod::kMse}) {
      const std::vector<float> w = gaussian(32 * 50 + 7, 9);
      const Int4Row row = quantize_nl(w, 32, method, signs);
      size_t n_ends = 0;
      for (size_t i = 0; i < w.size(); ++i) {
        const float scale = bf16_to_f32(row.scales[i / 32]);
        float least = std::numeric_limits<float>::max();
        for (const int8_t value : kInt4NlValues) {
          least = std::min(least, std::fabs(w[i] - static_cast<float>(value) * scale));
        }
        const float value = kInt4NlValues[row.codes[i] + 8];
        EXPECT_LE(std::fabs(w[i] - value * scale), least * 1.0001f) << i;
        n_ends += row.codes[i] == -8 ? 1 : 0;
      }
      EXPECT_GT(n_ends, 10u);
      for (size_t i = w.size(); i < row.codes.size(); ++i) EXPECT_EQ(row.codes[i], 0);
    }
  }
}

// What the format is for: less error than even codes, of the weights of networks.
TEST(Quantize, UnevenCodesErrLessThanEvenOnes) {
  const std::vector<float> w = gaussian(32 * 400, 12);
  ErrorSums even, uneven;
  const Int4Row a = quantize4(w, 32, QuantMethod::kMse, ScaleSigns::kBoth);
  const Int4Row b = quantize_nl(w, 32, QuantMethod::kMse, ScaleSigns::kBoth);
  add_error_groups(int4_shape(w.size(), 32), w.data(), a.codes.data(), a.scales.data(), &even);
  add_error_groups(int4_shape(w.size(), 32, format::NumberFormat::kInt4Nl), w.data(),
                   b.codes.data(), b.scales.data(), &uneven);
  std::printf("int4 %.2f dB, int4nl %.2f dB\n", sqnr_db(even), sqnr_db(uneven));
  EXPECT_GT(sqnr_db(uneven), sqnr_db(even) + 0.3);
}

TEST(Quantize, ZeroGroupsGetScaleZeroAndCodesZero) {
  std::vector<float> w(96, 0.0f);
  w[40] = 1e-30f;  // below the smallest scale: zero as well
  w[70] = -0.5f;
  const Int4Row row = quantize4(w, 32, QuantMethod::kMse);
  EXPECT_EQ(row.scales[0], 0);
  EXPECT_EQ(row.scales[1], 0);
  EXPECT_GT(bf16_to_f32(row.scales[2]), 0.0f);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(row.codes[i], 0);
  EXPECT_FLOAT_EQ(static_cast<float>(row.codes[70]) * bf16_to_f32(row.scales[2]), -0.5f);
}

Int4Row quantize8(const std::vector<float>& w, QuantMethod method) {
  const MatrixShape shape = int4_shape(w.size(), 32, format::NumberFormat::kInt8G32);
  const size_t padded = padded_cols(shape);
  Int4Row row = {std::vector<int8_t>(padded, 99), std::vector<uint16_t>(padded / 32)};
  quantize_groups(shape, w.data(), 1, method, ScaleSigns::kPositive, row.codes.data(),
                  row.scales.data());
  return row;
}

ErrorSums errors8(const std::vector<float>& w, QuantMethod method) {
  const Int4Row row = quantize8(w, method);
  ErrorSums sums;
  add_error_groups(int4_shape(w.size(), 32, format::NumberFormat::kInt8G32), w.data(),
                   row.codes.data(), row.scales.data(), &sums);
  return sums;
}

ErrorSums row_errors8(const std::vector<float>& w, QuantMethod method) {
  std::vector<int8_t> codes(round_up(w.size(), 32));
  float scale = 0;
  quantize_row_int8(w.data(), w.size(), method, codes.size(), codes.data(), &scale);
  ErrorSums sums;
  add_error_int8(w.data(), w.size(), codes.data(), scale, &sums);
  return sums;
}

TEST(Quantize, Int8GroupsErrByAtMostHalfAStep) {
  const std::vector<float> w = gaussian(32 * 60 + 5, 14);
  const Int4Row row = quantize8(w, QuantMethod::kRtn);
  for (size_t i = 0; i < w.size(); ++i) {
    const float scale = bf16_to_f32(row.scales[i / 32]);
    EXPECT_GT(scale, 0);
    // A scale rounded down, by 2^-8 of it at most, cuts 127 * 2^-8 of a step off the largest
    // weight: less than the half that all others may err by.
    EXPECT_LE(std::fabs(w[i] - static_cast<float>(row.codes[i]) * scale), scale * 0.50001f);
  }
  for (size_t i = w.size(); i < row.codes.size(); ++i) EXPECT_EQ(row.codes[i], 0);
}

TEST(Quantize, SearchedInt8GroupsErrLess) {
  constexpr size_t kGroups = 300;
  const std::vector<float> w = gaussian(32 * kGroups, 15);
  double before = 0;
  double after = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    const auto begin = w.begin() + static_cast<ptrdiff_t>(g * 32);
    const std::vector<float> part(begin, begin + 32);
    const double rtn = weighted_noise(part, quantize8(part, QuantMethod::kRtn), 32);
    const double mse = weighted_noise(part, quantize8(part, QuantMethod::kMse), 32);
    EXPECT_LE(mse, rtn * 1.0001);
    before += rtn;
    after += mse;
  }
  std::printf("%.4f of the error\n", after / before);
  EXPECT_LT(after, before * 0.85);
}

// What the format is for: a large weight costs its own group, not all of its row.
TEST(Quantize, Int8GroupsErrLessThanRowsWithALargeWeight) {
  constexpr size_t kCols = 2048;
  std::vector<float> w = gaussian(kCols, 16);
  constexpr float kLarge = 1.0f;  // 50 standard deviations
  w[777] = kLarge;
  float largest_other = 0;
  for (const float x : w) largest_other = std::max(largest_other, x < kLarge ? std::fabs(x) : 0);
  for (const QuantMethod method : {QuantMethod::kRtn, QuantMethod::kMse}) {
    const ErrorSums rows = row_errors8(w, method);
    const ErrorSums groups = errors8(w, method);
    // Errors go with the square of the step: that of one group stays, those of the others are no
    // larger than of their largest weight. A quarter more for what rounding is by chance.
    const double other = static_cast<double>(largest_other / kLarge);
    EXPECT_LT(groups.noise, rows.noise * (32.0 / kCols + other * other) * 1.25);
    std::printf("rows %.2f dB, groups %.2f dB\n", sqnr_db(rows), sqnr_db(groups));
  }
}

TEST(Quantize, Int8GroupsErrNoMoreThanRowsElsewhere) {
  std::vector<float> all_alike = gaussian(2048, 17);
  for (size_t i = 0; i < all_alike.size(); i += 32) all_alike[i] = 0.08f;
  for (const std::vector<float>& w : {gaussian(2048, 18), all_alike}) {
    for (const QuantMethod method : {QuantMethod::kRtn, QuantMethod::kMse}) {
      const ErrorSums rows = row_errors8(w, method);
      const ErrorSums groups = errors8(w, method);
      // No step is wider than the row's by more than the scale's rounding, 2^-8. The sum of 2048
      // squares of errors, each anywhere in a step, has a standard deviation of a fiftieth.
      EXPECT_LT(groups.noise, rows.noise * (1 + 0x1p-8) * (1 + 0x1p-8) * (1 + 4.0 / 50));
    }
  }
}

// Groups of several rows share a vector; no row may see another.
TEST(Quantize, RowsTogetherAreRowsAlone) {
  for (const size_t cols : {1u, 33u, 100u, 192u, 2050u}) {
    for (const size_t group : {32u, 64u, 128u}) {
      for (const size_t n_rows : {1u, 2u, 7u, 16u}) {
        const std::vector<float> w = gaussian(n_rows * cols, static_cast<unsigned>(cols + n_rows));
        const size_t padded = (cols + group - 1) / group * group;
        std::vector<int8_t> codes(n_rows * padded, 99);
        std::vector<uint16_t> scales(n_rows * padded / group);
        quantize_groups(int4_shape(cols, group), w.data(), n_rows, QuantMethod::kMse,
                        ScaleSigns::kBoth, codes.data(), scales.data());
        Int4Row alone;
        for (size_t r = 0; r < n_rows; ++r) {
          const auto begin = w.begin() + static_cast<std::ptrdiff_t>(r * cols);
          const Int4Row row = quantize4({begin, begin + static_cast<std::ptrdiff_t>(cols)}, group,
                                        QuantMethod::kMse, ScaleSigns::kBoth);
          alone.codes.insert(alone.codes.end(), row.codes.begin(), row.codes.end());
          alone.scales.insert(alone.scales.end(), row.scales.begin(), row.scales.end());
        }
        EXPECT_EQ(codes, alone.codes) << n_rows << " rows of " << cols << " in groups of " << group;
        EXPECT_EQ(scales, alone.scales);
      }
    }
  }
}

TEST(Quantize, Int8RowsTogetherAreRowsAlone) {
  for (const size_t cols : {1u, 33u, 100u, 2050u}) {
    constexpr size_t kRows = 7;
    const std::vector<float> w = gaussian(kRows * cols, static_cast<unsigned>(cols));
    const MatrixShape shape = int4_shape(cols, 32, format::NumberFormat::kInt8G32);
    const size_t padded = padded_cols(shape);
    std::vector<int8_t> codes(kRows * padded, 99);
    std::vector<uint16_t> scales(kRows * padded / 32);
    quantize_groups(shape, w.data(), kRows, QuantMethod::kMse, ScaleSigns::kPositive, codes.data(),
                    scales.data());
    Int4Row alone;
    for (size_t r = 0; r < kRows; ++r) {
      const auto begin = w.begin() + static_cast<std::ptrdiff_t>(r * cols);
      const Int4Row row =
          quantize8({begin, begin + static_cast<std::ptrdiff_t>(cols)}, QuantMethod::kMse);
      alone.codes.insert(alone.codes.end(), row.codes.begin(), row.codes.end());
      alone.scales.insert(alone.scales.end(), row.scales.begin(), row.scales.end());
    }
    EXPECT_EQ(codes, alone.codes) << cols;
    EXPECT_EQ(scales, alone.scales) << cols;
  }
}

TEST(Quantize, PaddingBehindTheRowIsZero) {
  const std::vector<float> w = gaussian(70, 4);
  const Int4Row row = quantize4(w, 32, QuantMethod::kMse);
  ASSERT_EQ(row.codes.size(), 96u);
  for (size_t i = 70; i < 96; ++i) EXPECT_EQ(row.codes[i], 0);
}

TEST(Quantize, ExtremeWeightsStayFinite) {
  for (const float big : {1e-10f, 1.0f, 1e30f, 3e38f}) {
    const std::vector<float> w = {big, -big, big / 2, 0, -big / 3, big, big, -big};
    for (const QuantMethod method : {QuantMethod::kRtn, QuantMethod::kMse}) {
      for (const ScaleSigns signs : {ScaleSigns::kPositive, ScaleSigns::kBoth}) {
        const Int4Row row = quantize4(w, 32, method, signs);
        EXPECT_TRUE(std::isfinite(bf16_to_f32(row.scales[0]))) << big;
      }
      std::vector<int8_t> codes(32);
      float scale = -1;
      quantize_row_int8(w.data(), w.size(), method, 32, codes.data(), &scale);
      EXPECT_TRUE(std::isfinite(scale)) << big;
      EXPECT_EQ(codes[0], 127);
      EXPECT_EQ(codes[1], -127);
      const Int4Row groups = quantize8(w, method);
      EXPECT_TRUE(std::isfinite(bf16_to_f32(groups.scales[0]))) << big;
      EXPECT_GT(groups.codes[0], 110);
      EXPECT_LT(groups.codes[1], -110);
    }
  }
}

TEST(Quantize, Int8RowErrsByAtMostHalfAStep) {
  const std::vector<float> w = gaussian(1000, 5);
  std::vector<int8_t> codes(1024, 99);
  float scale = 0;
  quantize_row_int8(w.data(), w.size(), QuantMethod::kRtn, 1024, codes.data(), &scale);
  for (size_t i = 0; i < w.size(); ++i) {
    EXPECT_LE(std::fabs(w[i] - static_cast<float>(codes[i]) * scale), scale * 0.50001f);
  }
  for (size_t i = 1000; i < 1024; ++i) EXPECT_EQ(codes[i], 0);
  ErrorSums sums;
  add_error_int8(w.data(), w.size(), codes.data(), scale, &sums);
  // Uniform rounding noise of step s: s^2 / 12 a weight.
  const double expected = static_cast<double>(scale) * static_cast<double>(scale) / 12 * 1000;
  EXPECT_NEAR(sums.noise / expected, 1.0, 0.15);
}

TEST(Quantize, TiesRoundToEven) {
  // scale is exactly 1: the row's largest weight is 127.
  const std::vector<float> w = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f};
  std::vector<int8_t> codes(32);
  float scale = 0;
  quantize_row_int8(w.data(), w.size(), QuantMethod::kRtn, 32, codes.data(), &scale);
  EXPECT_EQ(scale, 1.0f);
  const std::vector<int> want = {127, 0, 2, 2, 0, -2, -2};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(codes[i], want[i]);
}

// Whatever the weights, what comes out is what every reader accepts: no code -128, scales zero or
// positive and normal.
void quantize_odd_rows(uint32_t seed) {
  constexpr size_t kCols = 96;
  constexpr size_t kPadded = 128;
  constexpr uint16_t kGroup = 64;
  std::mt19937 generator(seed);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  size_t n_zero_scales = 0;
  size_t n_least_codes = 0;
  for (int round = 0; round < 4000; ++round) {
    float weights[kCols];
    const uint32_t exponent = random() % 0xff;  // of the largest: every finite one, subnormal too
    for (float& weight : weights) {
      const uint32_t below = random() % 12;
      const uint32_t e = round % 5 == 0 ? random() % 0xff : exponent - std::min(exponent, below);
      weight = std::bit_cast<float>((random() & 0x807fffff) | e << 23);
      if (random() % 16 == 0) weight = random() % 2 == 0 ? 0.0f : -0.0f;
    }
    if (round % 7 == 0) std::fill(std::begin(weights), std::end(weights), -0.0f);
    for (const QuantMethod method : {QuantMethod::kRtn, QuantMethod::kMse}) {
      int8_t codes[kPadded];
      float scale;
      quantize_row_int8(weights, kCols, method, kPadded, codes, &scale);
      ASSERT_TRUE(values_hold(PlaneValues::kInt8Codes, reinterpret_cast<const uint8_t*>(codes),
                              sizeof codes))
          << round;
      ASSERT_TRUE(values_hold(PlaneValues::kF32Scales, reinterpret_cast<const uint8_t*>(&scale),
                              sizeof scale))
          << round << ' ' << scale;
      uint16_t group_scales[kCols / 32];
      quantize_groups(int4_shape(kCols, 32, format::NumberFormat::kInt8G32), weights, 1, method,
                      ScaleSigns::kPositive, codes, group_scales);
      ASSERT_TRUE(
          values_hold(PlaneValues::kInt8Codes, reinterpret_cast<const uint8_t*>(codes), kCols))
          << round;
      ASSERT_TRUE(values_hold(PlaneValues::kBf16Scales,
                              reinterpret_cast<const uint8_t*>(group_scales), sizeof group_scales))
          << round;
      n_zero_scales += scale == 0 ? 1 : 0;
      n_least_codes += static_cast<size_t>(std::count(codes, codes + kCols, int8_t{-127}));
      uint16_t scales[kPadded / kGroup];
      for (const ScaleSigns signs : {ScaleSigns::kPositive, ScaleSigns::kBoth}) {
        const auto f = round % 2 == 0 ? format::NumberFormat::kInt4 : format::NumberFormat::kInt4Nl;
        quantize_groups(int4_shape(kCols, kGroup, f), weights, 1, method, signs, codes, scales);
        const PlaneValues allowed =
            signs == ScaleSigns::kBoth ? PlaneValues::kSignedBf16Scales : PlaneValues::kBf16Scales;
        ASSERT_TRUE(values_hold(allowed, reinterpret_cast<const uint8_t*>(scales), sizeof scales))
            << round << ' ' << scales[0] << ' ' << scales[1];
      }
    }
  }
  EXPECT_GT(n_zero_scales, 100u);
  EXPECT_GT(n_least_codes, 100u);
}

TEST(Quantize, NothingThatAReaderRefusesComesOut) { test::for_each_seed({29}, quantize_odd_rows); }

}  // namespace
}  // namespace cria
