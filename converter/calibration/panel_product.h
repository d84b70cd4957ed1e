// Products of float matrices whose bits depend on nothing but the values: each output is one f32
// accumulator to which the products are added in ascending order of k, multiplied, then added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "platforms/hosted/base/thread_pool.h"

namespace cria::converter {

inline constexpr size_t kPanelWidth = 16;

enum class PanelFormat : uint8_t { kF32, kBf16 };

// A matrix [rows][cols] as panels of 16 rows, [rows / 16][cols][16], the last one filled up with
// zeros: what a product reads in sequence.
class PanelMatrix {
 public:
  PanelMatrix() = default;
  PanelMatrix(size_t rows, size_t cols, PanelFormat format);

  [[nodiscard]] size_t rows() const { return rows_; }
  [[nodiscard]] size_t cols() const { return cols_; }
  [[nodiscard]] size_t n_panels() const { return (rows_ + kPanelWidth - 1) / kPanelWidth; }
  [[nodiscard]] PanelFormat format() const { return format_; }
  // Of kF32 and kBf16.
  [[nodiscard]] const float* floats(size_t panel) const {
    return floats_.data() + panel * cols_ * kPanelWidth;
  }
  [[nodiscard]] const uint16_t* halves(size_t panel) const {
    return halves_.data() + panel * cols_ * kPanelWidth;
  }

  // Row by row; disjoint rows may be set at the same time. kBf16 rounds them.
  //   values  [cols]
  void set_row(size_t row, const float* values);
  // One column of it: values [rows].
  void set_col(size_t col, const float* values);

 private:
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

// sums += a^T * b over rows: sums[i][j] += the sum over t of a[t][i] * b[t][j], where t ascends in
// parts of 512, each summed from zero. Where a is b only i >= j is computed (and some above).
//   a [n][a_cols]   b [n][b_cols]   sums [a_cols][b_cols]
void add_products(hosted::ThreadPool* pool, const float* a, size_t a_cols, const float* b,
                  size_t b_cols, size_t n, float* sums);

// y[r][j] -= the sum over i, ascending from zero, of x[r][i] * b[i][j], on the calling thread.
//   x [n][x_stride]   b [k][b_stride]   y [n][y_stride], columns first to last, which are multiples
//   of 16 or the end; b's and y's rows may be read up to the next multiple of 16.
void subtract_products(const float* x, size_t n, size_t x_stride, const float* b, size_t k,
                       size_t b_stride, float* y, size_t y_stride, size_t first, size_t last);

}  // namespace cria::converter
