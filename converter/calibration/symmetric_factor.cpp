#include "converter/calibration/symmetric_factor.h"

#include <algorithm>
#include <cmath>

#include "converter/calibration/panel_product.h"
#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

constexpr size_t kBlock = 64;  // a multiple of 16
constexpr size_t kTaskRows = 24;
constexpr size_t kTaskCols = 128;

size_t parts_of(size_t n, size_t part) { return (n + part - 1) / part; }

// The Cholesky factor of rows and columns first to last, in place; false: there is none.
bool factor_diagonal(SquareMatrix* l, size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) {
    float* row = l->row(i);
    for (size_t j = first; j <= i; ++j) {
      double sum = static_cast<double>(row[j]);
      for (size_t k = first; k < j; ++k) {
        sum -= static_cast<double>(row[k]) * static_cast<double>(l->row(j)[k]);
      }
      if (j < i) {
        row[j] = static_cast<float>(sum / static_cast<double>(l->row(j)[j]));
        continue;
      }
      const auto root = static_cast<float>(std::sqrt(sum));
      if (!(sum > 0) || !(root > 0)) return false;
      row[i] = root;
    }
  }
  return true;
}

// Columns first to last of a row below: row * (L11^T)^-1.
void solve_row(const SquareMatrix& l, size_t first, size_t last, float* row) {
  for (size_t j = first; j < last; ++j) {
    float value = row[j];
    for (size_t k = first; k < j; ++k) value -= row[k] * l.row(j)[k];
    row[j] = value / l.row(j)[j];
  }
}

// l's lower triangle becomes its Cholesky factor, block by block: what is done is taken from the
// rest.
bool factor(hosted::ThreadPool* pool, SquareMatrix* l) {
  const size_t n = l->n();
  std::vector<float> turned(kBlock * l->stride());
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t last = std::min(first + kBlock, n);
    if (!factor_diagonal(l, first, last)) return false;
    hosted::shared_loop(pool, parts_of(n - last, kTaskRows), [&](size_t task, size_t) {
      const size_t begin = last + task * kTaskRows;
      for (size_t i = begin; i < std::min(begin + kTaskRows, n); ++i) {
        solve_row(*l, first, last, l->row(i));
        for (size_t k = first; k < last; ++k) turned[(k - first) * l->stride() + i] = l->row(i)[k];
      }
    });
    hosted::shared_loop(pool, parts_of(n - last, kTaskRows), [&](size_t task, size_t) {
      const size_t begin = last + task * kTaskRows;
      const size_t end = std::min(begin + kTaskRows, n);
      // last is a multiple of 16 while there are rows below.
      subtract_products(l->row(begin) + first, end - begin, l->stride(), turned.data(),
                        last - first, l->stride(), l->row(begin), l->stride(), last, end);
    });
  }
  return true;
}

// x = L^-1, block of rows by block of rows.
void invert_lower(hosted::ThreadPool* pool, const SquareMatrix& l, SquareMatrix* x) {
  const size_t n = l.n();
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t last = std::min(first + kBlock, n);
    for (size_t i = first; i < last; ++i) x->row(i)[i] = 1;
    hosted::shared_loop(pool, parts_of(last, kTaskCols), [&](size_t task, size_t) {
      const size_t begin = task * kTaskCols;
      const size_t end = std::min(begin + kTaskCols, last);
      // Rows of x are zero right of the diagonal, so columns need no more than the rows below them.
      subtract_products(l.row(first) + begin, last - first, l.stride(), x->row(begin),
                        first > begin ? first - begin : 0, x->stride(), x->row(first), x->stride(),
                        begin, end);
      for (size_t i = first; i < last; ++i) {
        float* row = x->row(i);
        for (size_t k = first; k < i; ++k) {
          const float factor = l.row(i)[k];
          for (size_t j = begin; j < end; ++j) row[j] -= factor * x->row(k)[j];
        }
        for (size_t j = begin; j < end; ++j) row[j] /= l.row(i)[i];
      }
    });
  }
}

}  // namespace

bool inverse_factor(hosted::ThreadPool* pool, const SquareMatrix& a, SquareMatrix* u) {
  // With rows and columns in reverse, A = R * R^T with an upper triangular R, whose inverse is U.
  const size_t n = a.n();
  SquareMatrix reversed(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) reversed.row(i)[j] = a.row(n - 1 - j)[n - 1 - i];
  }
  if (!factor(pool, &reversed)) return false;
  SquareMatrix inverse(n);
  invert_lower(pool, reversed, &inverse);
  *u = SquareMatrix(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i; j < n; ++j) u->row(i)[j] = inverse.row(n - 1 - i)[n - 1 - j];
  }
  return true;
}

}  // namespace cria::converter
