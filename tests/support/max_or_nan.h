// The largest of errors, of which one may be no number.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

namespace cria::test {

// The larger of two; NaN when one of them is, which no limit lets pass. std::max would drop it.
inline double max_or_nan(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return a < b ? b : a;
}

// How far n numbers are from others, of the largest of these; NaN where one is no number.
template <typename Got, typename Want>
double relative_error(const Got* got, const Want* want, size_t n) {
  double largest = 0;
  double error = 0;
  for (size_t i = 0; i < n; ++i) {
    const double wanted = static_cast<double>(want[i]);
    largest = max_or_nan(largest, std::fabs(wanted));
    error = max_or_nan(error, std::fabs(static_cast<double>(got[i]) - wanted));
  }
  return error / largest;
}

}  // namespace cria::test
