// The factor that a rounding with feedback wants of a symmetric matrix: upper triangular U with
// U^T * U = A^-1.
#pragma once

#include <cstddef>
#include <vector>

#include "platforms/hosted/base/thread_pool.h"

namespace cria::converter {

// A square matrix whose rows begin at multiples of 16 floats; what fills them up is zero.
class SquareMatrix {
 public:
  SquareMatrix() = default;
  explicit SquareMatrix(size_t n)
      : n_(n), stride_((n + kMultiple - 1) / kMultiple * kMultiple), values_(n * stride_) {}
  [[nodiscard]] size_t n() const { return n_; }
  [[nodiscard]] size_t stride() const { return stride_; }
  [[nodiscard]] float* row(size_t i) { return values_.data() + i * stride_; }
  [[nodiscard]] const float* row(size_t i) const { return values_.data() + i * stride_; }
  [[nodiscard]] float* data() { return values_.data(); }
  [[nodiscard]] const float* data() const { return values_.data(); }

 private:
  static constexpr size_t kMultiple = 16;
  size_t n_ = 0;
  size_t stride_ = 0;
  std::vector<float> values_;
};

// a is symmetric; its lower triangle is read. False when it is not positive definite, as far as f32
// can tell. Sums are f32, in an order that depends on n alone. Cost: n^3 / 3 multiplications; two
// more matrices of its size while it runs.
[[nodiscard]] bool inverse_factor(hosted::ThreadPool* pool, const SquareMatrix& a, SquareMatrix* u);

}  // namespace cria::converter
