#include "converter/calibration/panel_product.h"

#include <algorithm>
#include <cstring>

#include "platforms/hosted/base/shared_loop.h"
#include "quant/numbers/float16.h"

namespace cria::converter {
namespace {

// What is read again and again stays in the caches: a task of multiply has so many rows of x, so
// many panels, and so many columns at once.
constexpr size_t kTaskRows = 96;
constexpr size_t kTaskPanels = 64;
constexpr size_t kTaskDepth = 512;
constexpr size_t kTaskLefts = 4;  // panels on the left of a task of add_products

size_t parts_of(size_t n, size_t part) { return (n + part - 1) / part; }

// A tile whose sums have only n_right of the 16 columns.
template <typename Element>
void add_tile(TileProduct<Element> product, const float* left, size_t left_step, size_t n_left,
              const Element* right, size_t n, size_t n_right, float* sums, size_t stride) {
  if (n_right == kTile) {
    product(left, left_step, n_left, right, n, sums, stride);
    return;
  }
  float tile[kTile * kTile] = {};
  for (size_t i = 0; i < n_left; ++i) {
    std::memcpy(tile + i * kTile, sums + i * stride, n_right * sizeof(float));
  }
  product(left, left_step, n_left, right, n, tile, kTile);
  for (size_t i = 0; i < n_left; ++i) {
    std::memcpy(sums + i * stride, tile + i * kTile, n_right * sizeof(float));
  }
}

// Rows of x as what tiles read on their left: 16 rows after 16, [depth][rows of them].
void pack_rows(const float* x, size_t n, size_t x_stride, size_t depth, float* packed) {
  for (size_t row = 0; row < n; row += kTile) {
    const size_t n_rows = std::min(kTile, n - row);
    float* const to = packed + row * depth;
    for (size_t i = 0; i < n_rows; ++i) {
      const float* const from = x + (row + i) * x_stride;
      for (size_t k = 0; k < depth; ++k) to[k * n_rows + i] = from[k];
    }
  }
}

template <typename Element>
void multiply_part(TileProduct<Element> product,
                   const Element* (PanelMatrix::*panel_of)(size_t) const, const float* packed,
                   size_t n, const PanelMatrix& m, size_t first, size_t depth, size_t first_panel,
                   size_t last_panel, float* y, size_t y_stride) {
  for (size_t panel = first_panel; panel < last_panel; ++panel) {
    const size_t n_right = std::min(kTile, m.rows() - panel * kTile);
    const Element* const right = (m.*panel_of)(panel) + first * kTile;
    for (size_t row = 0; row < n; row += kTile) {
      const size_t n_rows = std::min(kTile, n - row);
      add_tile(product, packed + row * depth, n_rows, n_rows, right, depth, n_right,
               y + row * y_stride + panel * kTile, y_stride);
    }
  }
}

// Columns of rows as panels: [cols / 16][n][16], the last one filled up with zeros.
void pack_columns(hosted::ThreadPool* pool, const float* rows, size_t n, size_t cols,
                  std::vector<float>* panels) {
  const size_t n_panels = panel_count(cols);
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
  const size_t first = place(row, 0);
  if (format_ == PanelFormat::kF32) {
    for (size_t i = 0; i < cols_; ++i) floats_[first + i * kPanelWidth] = values[i];
  } else {
    for (size_t i = 0; i < cols_; ++i) halves_[first + i * kPanelWidth] = f32_to_bf16(values[i]);
  }
}

void PanelMatrix::set_col(size_t col, const float* values) {
  for (size_t row = 0; row < rows_; ++row) {
    if (format_ == PanelFormat::kF32) {
      floats_[place(row, col)] = values[row];
    } else {
      halves_[place(row, col)] = f32_to_bf16(values[row]);
    }
  }
}

void multiply_panels(const float* x, size_t n, size_t x_stride, const PanelMatrix& m, size_t depth,
                     size_t first_panel, size_t last_panel, float* y, size_t y_stride) {
  const TileProducts& products = tile_products();
  std::vector<float> packed(std::min(n, kTaskRows) * std::min(depth, kTaskDepth));
  const size_t begin = first_panel * kTile;
  const size_t end = std::min(last_panel * kTile, m.rows());
  for (size_t row = 0; row < n; row += kTaskRows) {
    const size_t n_rows = std::min(kTaskRows, n - row);
    float* const of_rows = y + row * y_stride;
    for (size_t i = 0; i < n_rows; ++i) {
      std::fill(of_rows + i * y_stride + begin, of_rows + i * y_stride + end, 0.0f);
    }
    for (size_t first = 0; first < depth; first += kTaskDepth) {
      const size_t n_cols = std::min(kTaskDepth, depth - first);
      pack_rows(x + row * x_stride + first, n_rows, x_stride, n_cols, packed.data());
      if (m.format() == PanelFormat::kF32) {
        multiply_part(products.floats, &PanelMatrix::floats, packed.data(), n_rows, m, first,
                      n_cols, first_panel, last_panel, of_rows, y_stride);
      } else {
        multiply_part(products.halves, &PanelMatrix::halves, packed.data(), n_rows, m, first,
                      n_cols, first_panel, last_panel, of_rows, y_stride);
      }
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
  const size_t a_panels = panel_count(a_cols);
  const size_t b_panels = panel_count(b_cols);
  std::vector<float> left;
  std::vector<float> right;
  for (size_t first = 0; first < n; first += kTaskDepth) {
    const size_t depth = std::min(kTaskDepth, n - first);
    pack_columns(pool, a + first * a_cols, depth, a_cols, &left);
    if (a != b) pack_columns(pool, b + first * b_cols, depth, b_cols, &right);
    const std::vector<float>& of_b = a != b ? right : left;
    hosted::shared_loop(pool, parts_of(a_panels, kTaskLefts), [&](size_t task, size_t) {
      const size_t begin = task * kTaskLefts;
      const size_t end = std::min(begin + kTaskLefts, a_panels);
      for (size_t j = 0; j < (a != b ? b_panels : end); ++j) {
        for (size_t i = a != b ? begin : std::max(begin, j); i < end; ++i) {
          add_tile(tile_products().floats, left.data() + i * depth * kTile, kTile,
                   std::min(kTile, a_cols - i * kTile), of_b.data() + j * depth * kTile, depth,
                   std::min(kTile, b_cols - j * kTile), sums + i * kTile * b_cols + j * kTile,
                   b_cols);
        }
      }
    });
  }
}

}  // namespace cria::converter
