#include "converter/calibration/gptq_rounding.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "converter/calibration/panel_product.h"
#include "platforms/hosted/base/shared_loop.h"
#include "quant/float16.h"
#include "quant/multiversion.h"

namespace cria::converter {
namespace {

constexpr size_t kTileRows = 12;
constexpr size_t kBlock = 64;               // columns between two updates of all that follow
constexpr float kSmallestScale = 0x1p-64f;  // as quant/quantize.cpp has it
constexpr float kMostDamping = 1e3f;

// Fractions of the scale that just covers a group's largest weight.
constexpr float kFactors[] = {1.06f, 1.03f, 1.0f,  0.97f, 0.94f, 0.91f, 0.88f,
                              0.85f, 0.82f, 0.79f, 0.76f, 0.72f, 0.68f, 0.64f};

float rounded_to_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }

// to += factor * from.
CRIA_MULTIVERSION void add_row(float factor, const float* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

// A group of a row, and what its columns' errors count.
struct Group {
  const float* weights;
  const float* importance;
  size_t n;
};

float error_of(const CodeBook& book, const Group& group, float scale) {
  const float inverse = 1.0f / scale;
  float sum = 0;
  for (size_t i = 0; i < group.n; ++i) {
    const float d = group.weights[i] - book.level(book.nearest(group.weights[i] * inverse)) * scale;
    sum += d * d * group.importance[i];
  }
  return sum;
}

// The scale that just reaches the largest weight.
float covering_scale(const CodeBook& book, const Group& group) {
  float low = 0;
  float high = 0;
  for (size_t i = 0; i < group.n; ++i) {
    low = std::min(low, group.weights[i]);
    high = std::max(high, group.weights[i]);
  }
  return std::max(high / book.levels.back(), low / book.levels.front());
}

float find_scale(const CodeBook& book, const Group& group) {
  const float covering = covering_scale(book, group);
  float best = rounded_to_bf16(covering);
  if (!(best >= kSmallestScale)) return 0;
  float best_error = error_of(book, group, best);
  const auto attempt = [&](float candidate) {
    const float scale = rounded_to_bf16(candidate);
    if (!(scale >= kSmallestScale)) return;
    const float error = error_of(book, group, scale);
    if (error >= best_error) return;
    best = scale;
    best_error = error;
  };
  for (const float factor : kFactors) attempt(covering * factor);
  float wq = 0;
  float qq = 0;
  for (size_t i = 0; i < group.n; ++i) {
    const float level = book.level(book.nearest(group.weights[i] / best));
    wq += group.weights[i] * level * group.importance[i];
    qq += level * level * group.importance[i];
  }
  if (qq > 0) attempt(wq / qq);
  return best;
}

// A tile of rows on its way from weights to codes. Rows have basis.hessian's stride.
class TileRounding {
 public:
  TileRounding(const RoundingBasis& basis, const CodeBook& book, size_t cols, size_t group_size)
      : basis_(basis),
        book_(book),
        cols_(cols),
        group_size_(group_size),
        stride_(basis.hessian.stride()),
        groups_((cols + group_size - 1) / group_size),
        importance_(cols),
        weights_(kTileRows * stride_),
        values_(kTileRows * stride_),
        gradient_(kTileRows * stride_),
        errors_(kTileRows * kBlock),
        scales_(kTileRows * groups_),
        codes_(kTileRows * cols) {
    for (size_t i = 0; i < cols; ++i) importance_[i] = basis.hessian.row(i)[i];
  }

  void run(const float* targets, size_t n_rows, const RoundingSteps& steps) {
    targets_ = targets;
    n_rows_ = n_rows;
    find_scales();
    if (steps.feedback) {
      round_with_feedback();
    } else {
      round_to_nearest();
    }
    if (steps.n_sweeps == 0) return;
    find_gradient();
    for (uint32_t sweep = 0; sweep < steps.n_sweeps; ++sweep) {
      for (size_t r = 0; r < n_rows_; ++r) {
        fit_scales(r);
        improve_codes(r);
      }
    }
    for (size_t r = 0; r < n_rows_; ++r) fit_scales(r);
  }

  void take(size_t r, size_t padded, int8_t* codes, uint16_t* scales) const {
    std::copy_n(codes_.data() + r * cols_, cols_, codes);
    std::fill(codes + cols_, codes + padded, int8_t{0});
    for (size_t g = 0; g < groups_; ++g) {
      scales[g] = f32_to_bf16(scales_[r * groups_ + g]);
      if (scales[g] != 0) continue;
      const size_t end = std::min((g + 1) * group_size_, cols_);
      std::fill(codes + g * group_size_, codes + end, int8_t{0});
    }
  }

 private:
  [[nodiscard]] float scale_of(size_t r, size_t col) const {
    return scales_[r * groups_ + col / group_size_];
  }
  [[nodiscard]] int code_of(float weight, float scale) const {
    return scale > 0 ? book_.nearest(weight / scale) : 0;
  }

  void find_scales() {
    for (size_t r = 0; r < n_rows_; ++r) {
      for (size_t g = 0; g < groups_; ++g) {
        const size_t begin = g * group_size_;
        const size_t n = std::min(group_size_, cols_ - begin);
        scales_[r * groups_ + g] =
            find_scale(book_, {targets_ + r * cols_ + begin, importance_.data() + begin, n});
      }
    }
  }

  void round_to_nearest() {
    for (size_t r = 0; r < n_rows_; ++r) {
      for (size_t i = 0; i < cols_; ++i) {
        codes_[r * cols_ + i] =
            static_cast<int8_t>(code_of(targets_[r * cols_ + i], scale_of(r, i)));
      }
    }
  }

  // Columns in basis_.order; weights_ holds them so.
  void round_with_feedback() {
    for (size_t r = 0; r < n_rows_; ++r) {
      for (size_t i = 0; i < cols_; ++i) {
        weights_[r * stride_ + i] = targets_[r * cols_ + basis_.order[i]];
      }
    }
    for (size_t first = 0; first < cols_; first += kBlock) {
      const size_t last = std::min(first + kBlock, cols_);
      for (size_t i = first; i < last; ++i) {
        const float* factor = basis_.factor.row(i);
        const size_t col = basis_.order[i];
        for (size_t r = 0; r < n_rows_; ++r) {
          float* row = weights_.data() + r * stride_;
          const float scale = scale_of(r, col);
          const int code = code_of(row[i], scale);
          codes_[r * cols_ + col] = static_cast<int8_t>(code);
          const float error = (row[i] - book_.level(code) * scale) / factor[i];
          errors_[r * kBlock + i - first] = error;
          add_row(-error, factor + i + 1, last - i - 1, row + i + 1);
        }
      }
      if (last == cols_) break;
      subtract_products(errors_.data(), n_rows_, kBlock, basis_.factor.row(first), last - first,
                        stride_, weights_.data(), stride_, last, cols_);
    }
  }

  // gradient_ = (targets - values) * H.
  void find_gradient() {
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    for (size_t r = 0; r < n_rows_; ++r) {
      for (size_t i = 0; i < cols_; ++i) {
        const float value = book_.level(codes_[r * cols_ + i]) * scale_of(r, i);
        values_[r * stride_ + i] = value - targets_[r * cols_ + i];
      }
    }
    subtract_products(values_.data(), n_rows_, stride_, basis_.hessian.data(), cols_, stride_,
                      gradient_.data(), stride_, 0, cols_);
  }

  // Every code in turn becomes the best one given all others.
  void improve_codes(size_t r) {
    float* gradient = gradient_.data() + r * stride_;
    for (size_t i = 0; i < cols_; ++i) {
      const float scale = scale_of(r, i);
      if (!(scale > 0)) continue;
      int8_t& code = codes_[r * cols_ + i];
      const float value = book_.level(code) * scale;
      const int better = book_.nearest((value + gradient[i] / importance_[i]) / scale);
      if (better == code) continue;
      add_row(value - book_.level(better) * scale, basis_.hessian.row(i), cols_, gradient);
      code = static_cast<int8_t>(better);
    }
  }

  // Every scale in turn becomes the best one given all others and the codes.
  void fit_scales(size_t r) {
    float* gradient = gradient_.data() + r * stride_;
    for (size_t g = 0; g < groups_; ++g) {
      float& scale = scales_[r * groups_ + g];
      if (!(scale > 0)) continue;
      const size_t begin = g * group_size_;
      const size_t end = std::min(begin + group_size_, cols_);
      double slope = 0;      // codes * gradient
      double curvature = 0;  // codes * H * codes
      for (size_t i = begin; i < end; ++i) {
        const float level = book_.level(codes_[r * cols_ + i]);
        if (level == 0) continue;
        slope += static_cast<double>(level * gradient[i]);
        double sum = 0;
        for (size_t j = begin; j < end; ++j) {
          sum += static_cast<double>(basis_.hessian.row(i)[j]) *
                 static_cast<double>(book_.level(codes_[r * cols_ + j]));
        }
        curvature += static_cast<double>(level) * sum;
      }
      if (!(curvature > 0)) continue;
      const float fitted = rounded_to_bf16(scale + static_cast<float>(slope / curvature));
      const double change = static_cast<double>(fitted) - static_cast<double>(scale);
      if (!(fitted >= kSmallestScale) || change * (2 * slope - change * curvature) <= 0) continue;
      for (size_t i = begin; i < end; ++i) {
        const float level = book_.level(codes_[r * cols_ + i]);
        if (level != 0) {
          add_row(-static_cast<float>(change) * level, basis_.hessian.row(i), cols_, gradient);
        }
      }
      scale = fitted;
    }
  }

  const RoundingBasis& basis_;
  const CodeBook& book_;
  size_t cols_;
  size_t group_size_;
  size_t stride_;
  size_t groups_;
  std::vector<float> importance_;
  const float* targets_ = nullptr;
  size_t n_rows_ = 0;
  std::vector<float> weights_;
  std::vector<float> values_;
  std::vector<float> gradient_;
  std::vector<float> errors_;
  std::vector<float> scales_;
  std::vector<int8_t> codes_;
};

}  // namespace

RoundingBasis make_basis(hosted::ThreadPool* pool, const float* sums, size_t cols, float damping) {
  RoundingBasis basis;
  basis.hessian = SquareMatrix(cols);
  double trace = 0;
  for (size_t i = 0; i < cols; ++i) trace += static_cast<double>(sums[i * cols + i]);
  const auto mean = static_cast<float>(trace / static_cast<double>(cols));
  basis.order.resize(cols);
  std::iota(basis.order.begin(), basis.order.end(), 0u);
  std::stable_sort(basis.order.begin(), basis.order.end(),
                   [&](uint32_t a, uint32_t b) { return sums[a * cols + a] > sums[b * cols + b]; });
  for (;; damping *= 2) {
    // Inputs that are all zero leave nothing to weigh.
    const float added = mean > 0 ? mean * damping : 1.0f;
    for (size_t i = 0; i < cols; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        const float value = sums[i * cols + j] + (i == j ? added : 0.0f);
        basis.hessian.row(i)[j] = value;
        basis.hessian.row(j)[i] = value;
      }
    }
    SquareMatrix ordered(cols);
    for (size_t i = 0; i < cols; ++i) {
      for (size_t j = 0; j < cols; ++j) {
        ordered.row(i)[j] = basis.hessian.row(basis.order[i])[basis.order[j]];
      }
    }
    if (inverse_factor(pool, ordered, &basis.factor) || damping > kMostDamping) return basis;
  }
}

RoundedRows round_rows(hosted::ThreadPool* pool, const RoundingBasis& basis, const CodeBook& book,
                       const float* targets, size_t n_rows, size_t cols, size_t group_size,
                       const RoundingSteps& steps) {
  const size_t groups = (cols + group_size - 1) / group_size;
  const size_t padded = groups * group_size;
  RoundedRows rounded;
  rounded.codes.resize(n_rows * padded);
  rounded.scales.resize(n_rows * groups);
  std::vector<std::unique_ptr<TileRounding>> tiles(pool->n_threads());
  const size_t n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  hosted::shared_loop(pool, n_tiles, [&](size_t index, size_t worker) {
    std::unique_ptr<TileRounding>& tile = tiles[worker];
    if (!tile) tile = std::make_unique<TileRounding>(basis, book, cols, group_size);
    const size_t first = index * kTileRows;
    const size_t n = std::min(kTileRows, n_rows - first);
    tile->run(targets + first * cols, n, steps);
    for (size_t r = 0; r < n; ++r) {
      tile->take(r, padded, rounded.codes.data() + (first + r) * padded,
                 rounded.scales.data() + (first + r) * groups);
    }
  });
  return rounded;
}

void expand_rows(const CodeBook& book, const RoundedRows& rounded, size_t n_rows, size_t cols,
                 size_t group_size, float* values) {
  const size_t groups = (cols + group_size - 1) / group_size;
  for (size_t r = 0; r < n_rows; ++r) {
    const int8_t* codes = rounded.codes.data() + r * groups * group_size;
    for (size_t i = 0; i < cols; ++i) {
      values[r * cols + i] =
          book.level(codes[i]) * bf16_to_f32(rounded.scales[r * groups + i / group_size]);
    }
  }
}

}  // namespace cria::converter
