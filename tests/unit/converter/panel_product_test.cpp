// Products of float matrices against naive ones: the same additions in the same order, so the same
// bits, whatever the sizes and threads.
#include "converter/calibration/panel_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quant/float16.h"

namespace cria::converter {
namespace {

std::vector<float> random_values(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> values;
  std::vector<float> x(n);
  for (float& value : x) value = values(rng);
  return x;
}

struct Shape {
  size_t n, rows, cols;
};
// Below, at and above the sizes of blocks, panels and tasks.
constexpr Shape kShapes[] = {{1, 1, 1},    {1, 16, 3},   {5, 17, 33},   {6, 32, 64},
                             {7, 100, 31}, {97, 48, 16}, {200, 20, 130}};

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
          for (size_t k = 0; k < s.cols; ++k) sum += w[j * s.cols + k] * x[i * s.cols + k];
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

TEST(PanelProduct, SubtractsOnlyTheColumnsThatAreNamed) {
  constexpr size_t kStride = 48;
  const std::vector<float> x = random_values(7 * 10, 6);
  const std::vector<float> b = random_values(10 * kStride, 7);
  const std::vector<float> before = random_values(7 * kStride, 8);
  std::vector<float> y = before;
  subtract_products(x.data(), 7, 10, b.data(), 10, kStride, y.data(), kStride, 16, 41);
  for (size_t r = 0; r < 7; ++r) {
    for (size_t j = 0; j < kStride; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 10; ++k) sum += b[k * kStride + j] * x[r * 10 + k];
      const bool named = j >= 16 && j < 41;
      EXPECT_EQ(y[r * kStride + j], before[r * kStride + j] - (named ? sum : 0.0f));
    }
  }
}

}  // namespace
}  // namespace cria::converter
