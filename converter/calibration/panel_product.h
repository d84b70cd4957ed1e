// Products of float matrices whose bits depend on nothing but the values: each output is one f32
// accumulator that takes its products in ascending order of k, each in one fused multiply-add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "converter/calibration/tile_products.h"
#include "platforms/hosted/base/thread_pool.h"

namespace cria::converter {

inline constexpr size_t kPanelWidth = kTile;

[[nodiscard]] inline size_t panel_count(size_t n) { return (n + kPanelWidth - 1) / kPanelWidth; }

enum class PanelFormat : uint8_t { kF32, kBf16 };

// A matrix [rows][cols] as panels of 16 rows, [rows / 16][cols][16], the last one filled up with
// zeros: what a product reads in sequence.
class PanelMatrix {
 public:
  PanelMatrix() = default;
  PanelMatrix(size_t rows, size_t cols, PanelFormat format);

  [[nodiscard]] size_t rows() const { return rows_; }
  [[nodiscard]] size_t cols() const { return cols_; }
  [[nodiscard]] size_t n_panels() const { return panel_count(rows_); }
  [[nodiscard]] PanelFormat format() const { return format_; }
  // Of kF32 and kBf16.
  [[nodiscard]] const float* floats(size_t panel) const {
    return floats_.data() + panel * cols_ * kPanelWidth;
  }
  [[nodiscard]] float* floats(size_t panel) { return floats_.data() + panel * cols_ * kPanelWidth; }
  [[nodiscard]] const uint16_t* halves(size_t panel) const {
    return halves_.data() + panel * cols_ * kPanelWidth;
  }
  // Of kF32.
  [[nodiscard]] float at(size_t row, size_t col) const { return floats_[place(row, col)]; }
  [[nodiscard]] float& at(size_t row, size_t col) { return floats_[place(row, col)]; }

  // Row by row; disjoint rows may be set at the same time. kBf16 rounds them.
  //   values  [cols]
  void set_row(size_t row, const float* values);
  // One column of it: values [rows].
  void set_col(size_t col, const float* values);

 private:
  [[nodiscard]] size_t place(size_t row, size_t col) const {
    return (row / kPanelWidth * cols_ + col) * kPanelWidth + row % kPanelWidth;
  }

  size_t rows_ = 0;
  size_t cols_ = 0;
  PanelFormat format_ = PanelFormat::kF32;
  std::vector<float> floats_;
  std::vector<uint16_t> halves_;
};

// y = x * m^T for rows of x, on the calling thread.
//   x      [n][x_stride]
//   depth  columns of m that count; x has as many
//   y      [n][y_stride], of which the columns of panels first_panel to last_panel are overwritten
void multiply_panels(const float* x, size_t n, size_t x_stride, const PanelMatrix& m, size_t depth,
                     size_t first_panel, size_t last_panel, float* y, size_t y_stride);

// The same of all panels, shared by the pool's threads: x [n][m.cols()], y [n][m.rows()].
void multiply(hosted::ThreadPool* pool, const float* x, size_t n, const PanelMatrix& m, float* y);

// sums += a^T * b over rows: sums[i][j] takes a[t][i] * b[t][j], t ascending. Where a is b only
// i >= j is computed (and some above).
//   a     [n][a_cols]
//   b     [n][b_cols]
//   sums  [a_cols][b_cols]
void add_products(hosted::ThreadPool* pool, const float* a, size_t a_cols, const float* b,
                  size_t b_cols, size_t n, float* sums);

}  // namespace cria::converter
