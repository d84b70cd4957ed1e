// Products of float matrices against naive ones: the same additions in the same order, so the same
// bits, whatever the sizes and threads.
#include "converter/calibration/panel_product.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/numbers/float16.h"
#include "tests/support/random_values.h"

namespace cria::converter {
namespace {

using test::random_values;

struct Shape {
  size_t n, rows, cols;
};
// Below, at and above the sizes of blocks, panels and tasks.
constexpr Shape kShapes[] = {{1, 1, 1},    {1, 16, 3},   {5, 17, 33},    {6, 32, 64},
                             {7, 100, 31}, {97, 48, 16}, {200, 20, 130}, {33, 40, 1030}};

PanelMatrix panels_of(const std::vector<float>& values, size_t rows, size_t cols,
                      PanelFormat format) {
  PanelMatrix m(rows, cols, format);
  for (size_t row = 0; row < rows; ++row) m.set_row(row, values.data() + row * cols);
  return m;
}

TEST(PanelProduct, IsTheSumInAscendingOrderOnAnyNumberOfThreads) {
  for (const Shape s : kShapes) {
    for (const PanelFormat format : {PanelFormat::kF32, PanelFormat::kBf16}) {
      const std::vector<float> x = random_values(s.n * s.cols, 1);
      std::vector<float> w = random_values(s.rows * s.cols, 2);
      const PanelMatrix m = panels_of(w, s.rows, s.cols, format);
      if (format == PanelFormat::kBf16) {
        for (float& value : w) value = bf16_to_f32(f32_to_bf16(value));
      }
      std::vector<float> want(s.n * s.rows);
      for (size_t i = 0; i < s.n; ++i) {
        for (size_t j = 0; j < s.rows; ++j) {
          float sum = 0;
          for (size_t k = 0; k < s.cols; ++k)
            sum = std::fma(w[j * s.cols + k], x[i * s.cols + k], sum);
          want[i * s.rows + j] = sum;
        }
      }
      for (const size_t n_threads : {1, 3}) {
        hosted::ThreadPool pool(n_threads, hosted::FewerThreads::kAreTaken);
        std::vector<float> got(want.size());
        multiply(&pool, x.data(), s.n, m, got.data());
        EXPECT_EQ(got, want) << s.n << " " << s.rows << " " << s.cols;
      }
    }
  }
}

TEST(PanelProduct, ColumnsMayBeSetOneByOne) {
  const std::vector<float> w = random_values(20 * 5, 3);
  const PanelMatrix by_rows = panels_of(w, 20, 5, PanelFormat::kF32);
  PanelMatrix by_cols(20, 5, PanelFormat::kF32);
  for (size_t col = 0; col < 5; ++col) {
    std::vector<float> values(20);
    for (size_t row = 0; row < 20; ++row) values[row] = w[row * 5 + col];
    by_cols.set_col(col, values.data());
  }
  for (size_t panel = 0; panel < 2; ++panel) {
    for (size_t i = 0; i < 5 * kPanelWidth; ++i) {
      EXPECT_EQ(by_rows.floats(panel)[i], by_cols.floats(panel)[i]);
    }
  }
}

// The error of a float sum of n products: n roundings of at most the sum of magnitudes.
double bound(size_t n, double magnitudes) {
  return static_cast<double>(n + 1) * 0x1p-24 * magnitudes;
}

TEST(PanelProduct, SumsOfProductsOverRowsAreNearExactOnes) {
  for (const size_t cols : {1, 16, 50}) {
    constexpr size_t kRows = 700;  // more than are packed at once
    const std::vector<float> a = random_values(kRows * cols, 4);
    const std::vector<float> b = random_values(kRows * cols, 5);
    for (const bool same : {true, false}) {
      const std::vector<float>& right = same ? a : b;
      hosted::ThreadPool pool(2, hosted::FewerThreads::kAreTaken);
      std::vector<float> sums(cols * cols);
      add_products(&pool, a.data(), cols, right.data(), cols, kRows, sums.data());
      for (size_t i = 0; i < cols; ++i) {
        for (size_t j = 0; j < (same ? i + 1 : cols); ++j) {
          double want = 0;
          double magnitudes = 0;
          for (size_t t = 0; t < kRows; ++t) {
            const double product =
                static_cast<double>(a[t * cols + i]) * static_cast<double>(right[t * cols + j]);
            want += product;
            magnitudes += std::fabs(product);
          }
          EXPECT_NEAR(static_cast<double>(sums[i * cols + j]), want, bound(kRows, magnitudes));
        }
      }
    }
  }
}

TEST(PanelProduct, TheTwoSidesMayHaveDifferentWidths) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};  // [2][3]
  const std::vector<float> b = {7, 8};              // [2][1]
  hosted::ThreadPool pool(1, hosted::FewerThreads::kAreTaken);
  std::vector<float> sums = {100, 0, 0};
  add_products(&pool, a.data(), 3, b.data(), 1, 2, sums.data());
  EXPECT_EQ(sums, (std::vector<float>{139, 54, 69}));
}

// Sums of any size of part: what is after n_left rows stays.
TEST(TileProducts, AllVersionsRoundEachStepOnce) {
  constexpr size_t kStride = 20;
  constexpr float kUntouched = 7.0f;
  EXPECT_STREQ(all_tile_products().back().name, "portable");
  for (const TileProducts& version : all_tile_products()) {
    for (size_t n_left = 1; n_left <= kTile; ++n_left) {
      for (const size_t n : {0, 1, 2, 33}) {
        // Sizes from 2^-140 on: subnormal products and sums, cancellation, ties.
        std::vector<float> left = random_values(n * n_left, 6);
        std::vector<float> right = random_values(n * kTile, 7);
        for (size_t i = 0; i < left.size(); ++i) {
          if (i % 3 == 0) left[i] = std::ldexp(left[i], -static_cast<int>(i % 140));
          if (i % 5 == 0) left[i] = std::round(left[i] * 4) * 0x1p-12f;
        }
        for (size_t i = 0; i < right.size(); ++i) {
          if (i % 7 == 0) right[i] = std::round(right[i]) * 0x1p-12f;
        }
        std::vector<uint16_t> halves(right.size());
        for (size_t i = 0; i < right.size(); ++i) halves[i] = f32_to_bf16(right[i]);
        for (const bool are_halves : {false, true}) {
          std::vector<float> want(kTile * kStride, kUntouched);
          for (size_t i = 0; i < n_left; ++i) {
            for (size_t j = 0; j < kTile; ++j) {
              float& sum = want[i * kStride + j];
              sum = static_cast<float>(i * j) * 0x1p-20f;
            }
          }
          std::vector<float> got = want;
          for (size_t i = 0; i < n_left; ++i) {
            for (size_t j = 0; j < kTile; ++j) {
              float& sum = want[i * kStride + j];
              for (size_t k = 0; k < n; ++k) {
                const size_t at = k * kTile + j;
                const float y = are_halves ? bf16_to_f32(halves[at]) : right[at];
                sum = std::fma(left[k * n_left + i], y, sum);
              }
            }
          }
          if (are_halves) {
            version.halves(left.data(), n_left, n_left, halves.data(), n, got.data(), kStride);
          } else {
            version.floats(left.data(), n_left, n_left, right.data(), n, got.data(), kStride);
          }
          EXPECT_EQ(got, want) << version.name << " " << n_left << " " << n;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cria::converter
