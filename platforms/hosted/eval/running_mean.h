// The mean of numbers that come one by one, and how far it may be from that of all such numbers.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

namespace cria::hosted {

class RunningMean {
 public:
  void add(double value) {
    ++count_;
    const double from_old = value - mean_;
    mean_ += from_old / static_cast<double>(count_);
    squares_ += from_old * (value - mean_);
  }

  [[nodiscard]] size_t count() const { return count_; }
  [[nodiscard]] double mean() const { return mean_; }
  // The standard error of the mean, as if the numbers were independent; no number for fewer than
  // two.
  [[nodiscard]] double error() const {
    if (count_ < 2) return std::numeric_limits<double>::quiet_NaN();
    const auto n = static_cast<double>(count_);
    return std::sqrt(squares_ / (n - 1.0) / n);
  }

 private:
  size_t count_ = 0;
  double mean_ = 0.0;
  double squares_ = 0.0;  // sum of the squared distances from the mean
};

}  // namespace cria::hosted
