#include "converter/calibration/panel_product.h"

#include <algorithm>

#include "converter/calibration/lanes.h"
#include "platforms/hosted/base/shared_loop.h"
#include "quant/float16.h"
#include "quant/multiversion.h"

namespace cria::converter {
namespace {

// Rows at once: their accumulators and what is multiplied fit the 16 registers of AVX2.
constexpr size_t kBlockRows = 6;
// A task of multiply: so many rows of x, so many panels.
constexpr size_t kTaskRows = 96;
constexpr size_t kTaskPanels = 64;
// Rows that add_products packs at once.
constexpr size_t kTaskDepth = 512;

// kRows sums of a[r * a_row + k * a_step] * b[k * b_step .. + 16], k ascending from 0.
template <size_t kRows, typename Element>
CRIA_LANES_INLINE void sum_block(const float* a, size_t a_row, size_t a_step, const Element* b,
                                 size_t b_step, size_t n, Lanes* sums) {
  Lanes acc[kRows] = {};
  for (size_t k = 0; k < n; ++k) {
    Lanes right;
    load(b + k * b_step, &right);
    for (size_t r = 0; r < kRows; ++r) acc[r] += right * a[r * a_row + k * a_step];
  }
  for (size_t r = 0; r < kRows; ++r) sums[r] = acc[r];
}

// The same for 1 to kBlockRows rows.
template <typename Element>
CRIA_LANES_INLINE void sum_rows(const float* a, size_t n_rows, size_t a_row, size_t a_step,
                                const Element* b, size_t b_step, size_t n, Lanes* sums) {
  switch (n_rows) {
    case 6:
      return sum_block<6>(a, a_row, a_step, b, b_step, n, sums);
    case 5:
      return sum_block<5>(a, a_row, a_step, b, b_step, n, sums);
    case 4:
      return sum_block<4>(a, a_row, a_step, b, b_step, n, sums);
    case 3:
      return sum_block<3>(a, a_row, a_step, b, b_step, n, sums);
    case 2:
      return sum_block<2>(a, a_row, a_step, b, b_step, n, sums);
    default:
      return sum_block<1>(a, a_row, a_step, b, b_step, n, sums);
  }
}

template <typename Element>
CRIA_LANES_INLINE void multiply_panel(const float* x, size_t n, size_t x_stride,
                                      const Element* panel, size_t cols, size_t n_outputs, float* y,
                                      size_t y_stride) {
  for (size_t row = 0; row < n; row += kBlockRows) {
    const size_t n_rows = std::min(kBlockRows, n - row);
    Lanes sums[kBlockRows];
    sum_rows(x + row * x_stride, n_rows, x_stride, 1, panel, kPanelWidth, cols, sums);
    for (size_t r = 0; r < n_rows; ++r) {
      std::memcpy(y + (row + r) * y_stride, &sums[r], n_outputs * sizeof(float));
    }
  }
}

CRIA_MULTIVERSION void multiply_floats(const float* x, size_t n, size_t x_stride,
                                       const float* panel, size_t cols, size_t n_outputs, float* y,
                                       size_t y_stride) {
  multiply_panel(x, n, x_stride, panel, cols, n_outputs, y, y_stride);
}

CRIA_MULTIVERSION void multiply_halves(const float* x, size_t n, size_t x_stride,
                                       const uint16_t* panel, size_t cols, size_t n_outputs,
                                       float* y, size_t y_stride) {
  multiply_panel(x, n, x_stride, panel, cols, n_outputs, y, y_stride);
}

// sums [16][stride] += left^T * right of two panels [n][16]; n_left rows and n_right columns of it.
CRIA_MULTIVERSION void add_panel_products(const float* left, const float* right, size_t n,
                                          size_t n_left, size_t n_right, float* sums,
                                          size_t stride) {
  for (size_t row = 0; row < n_left; row += kBlockRows) {
    const size_t n_rows = std::min(kBlockRows, n_left - row);
    Lanes block[kBlockRows];
    sum_rows(left + row, n_rows, 1, kPanelWidth, right, kPanelWidth, n, block);
    for (size_t r = 0; r < n_rows; ++r) {
      float* to = sums + (row + r) * stride;
      float products[kLanes];
      store(block[r], products);
      for (size_t i = 0; i < n_right; ++i) to[i] += products[i];
    }
  }
}

CRIA_MULTIVERSION void subtract_block(const float* x, size_t n, size_t x_stride, const float* b,
                                      size_t k, size_t b_stride, float* y, size_t y_stride,
                                      size_t n_outputs) {
  for (size_t row = 0; row < n; row += kBlockRows) {
    const size_t n_rows = std::min(kBlockRows, n - row);
    Lanes sums[kBlockRows];
    sum_rows(x + row * x_stride, n_rows, x_stride, 1, b, b_stride, k, sums);
    for (size_t r = 0; r < n_rows; ++r) {
      float* to = y + (row + r) * y_stride;
      float products[kLanes];
      store(sums[r], products);
      for (size_t i = 0; i < n_outputs; ++i) to[i] -= products[i];
    }
  }
}

size_t parts_of(size_t n, size_t part) { return (n + part - 1) / part; }

// Columns of rows as panels: [cols / 16][n][16], the last one filled up with zeros.
void pack_columns(hosted::ThreadPool* pool, const float* rows, size_t n, size_t cols,
                  std::vector<float>* panels) {
  const size_t n_panels = parts_of(cols, kPanelWidth);
  panels->assign(n_panels * n * kPanelWidth, 0.0f);
  hosted::shared_loop(pool, n_panels, [&](size_t panel, size_t) {
    const size_t width = std::min(kPanelWidth, cols - panel * kPanelWidth);
    float* to = panels->data() + panel * n * kPanelWidth;
    for (size_t row = 0; row < n; ++row) {
      std::memcpy(to + row * kPanelWidth, rows + row * cols + panel * kPanelWidth,
                  width * sizeof(float));
    }
  });
}

}  // namespace

PanelMatrix::PanelMatrix(size_t rows, size_t cols, PanelFormat format)
    : rows_(rows), cols_(cols), format_(format) {
  const size_t n = n_panels() * cols * kPanelWidth;
  if (format == PanelFormat::kF32) {
    floats_.resize(n);
  } else {
    halves_.resize(n);
  }
}

void PanelMatrix::set_row(size_t row, const float* values) {
  const size_t at = row / kPanelWidth * cols_ * kPanelWidth + row % kPanelWidth;
  if (format_ == PanelFormat::kF32) {
    for (size_t i = 0; i < cols_; ++i) floats_[at + i * kPanelWidth] = values[i];
  } else {
    for (size_t i = 0; i < cols_; ++i) halves_[at + i * kPanelWidth] = f32_to_bf16(values[i]);
  }
}

void PanelMatrix::set_col(size_t col, const float* values) {
  for (size_t row = 0; row < rows_; ++row) {
    const size_t at = (row / kPanelWidth * cols_ + col) * kPanelWidth + row % kPanelWidth;
    if (format_ == PanelFormat::kF32) {
      floats_[at] = values[row];
    } else {
      halves_[at] = f32_to_bf16(values[row]);
    }
  }
}

void multiply_panels(const float* x, size_t n, size_t x_stride, const PanelMatrix& m, size_t depth,
                     size_t first_panel, size_t last_panel, float* y, size_t y_stride) {
  for (size_t panel = first_panel; panel < last_panel; ++panel) {
    const size_t n_outputs = std::min(kPanelWidth, m.rows() - panel * kPanelWidth);
    float* to = y + panel * kPanelWidth;
    if (m.format() == PanelFormat::kF32) {
      multiply_floats(x, n, x_stride, m.floats(panel), depth, n_outputs, to, y_stride);
    } else {
      multiply_halves(x, n, x_stride, m.halves(panel), depth, n_outputs, to, y_stride);
    }
  }
}

void multiply(hosted::ThreadPool* pool, const float* x, size_t n, const PanelMatrix& m, float* y) {
  // Few rows leave the panels to be shared.
  const size_t task_panels = n > kTaskRows ? kTaskPanels : parts_of(kTaskPanels, 8);
  const size_t n_panel_tasks = parts_of(m.n_panels(), task_panels);
  const size_t n_tasks = n_panel_tasks * parts_of(n, kTaskRows);
  hosted::shared_loop(pool, n_tasks, [&](size_t task, size_t) {
    const size_t row = task / n_panel_tasks * kTaskRows;
    const size_t panel = task % n_panel_tasks * task_panels;
    multiply_panels(x + row * m.cols(), std::min(kTaskRows, n - row), m.cols(), m, m.cols(), panel,
                    std::min(panel + task_panels, m.n_panels()), y + row * m.rows(), m.rows());
  });
}

void add_products(hosted::ThreadPool* pool, const float* a, size_t a_cols, const float* b,
                  size_t b_cols, size_t n, float* sums) {
  const size_t a_panels = parts_of(a_cols, kPanelWidth);
  const size_t b_panels = parts_of(b_cols, kPanelWidth);
  std::vector<float> left;
  std::vector<float> right;
  for (size_t first = 0; first < n; first += kTaskDepth) {
    const size_t depth = std::min(kTaskDepth, n - first);
    pack_columns(pool, a + first * a_cols, depth, a_cols, &left);
    if (a != b) pack_columns(pool, b + first * b_cols, depth, b_cols, &right);
    const std::vector<float>& of_b = a != b ? right : left;
    hosted::shared_loop(pool, a_panels, [&](size_t i, size_t) {
      for (size_t j = 0; j < (a != b ? b_panels : i + 1); ++j) {
        add_panel_products(left.data() + i * depth * kPanelWidth,
                           of_b.data() + j * depth * kPanelWidth, depth,
                           std::min(kPanelWidth, a_cols - i * kPanelWidth),
                           std::min(kPanelWidth, b_cols - j * kPanelWidth),
                           sums + i * kPanelWidth * b_cols + j * kPanelWidth, b_cols);
      }
    });
  }
}

void subtract_products(const float* x, size_t n, size_t x_stride, const float* b, size_t k,
                       size_t b_stride, float* y, size_t y_stride, size_t first, size_t last) {
  for (size_t col = first; col < last; col += kPanelWidth) {
    subtract_block(x, n, x_stride, b + col, k, b_stride, y + col, y_stride,
                   std::min(kPanelWidth, last - col));
  }
}

}  // namespace cria::converter
