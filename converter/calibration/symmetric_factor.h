// The factor that a rounding with feedback wants of a symmetric matrix: upper triangular U with
// U^T * U = A^-1.
#pragma once

#include <cstddef>
#include <vector>

#include "converter/calibration/panel_product.h"
#include "platforms/hosted/base/thread_pool.h"

namespace cria::converter {

// U turned, that is row j of it holds column j of U: what products with U read in sequence.
//   a       [n][n], symmetric; only its lower triangle is read
//   turned  [n][n], overwritten
// False when a is not positive definite, as far as f32 can tell. Sums are f32, in an order that
// depends only on n. Cost: 2/3 n^3 multiplications; two more matrices of its size while it runs.
[[nodiscard]] bool inverse_factor(hosted::ThreadPool* pool, const std::vector<float>& a, size_t n,
                                  PanelMatrix* turned);

}  // namespace cria::converter
