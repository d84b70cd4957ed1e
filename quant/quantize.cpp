#include "quant/quantize.h"

#include <cmath>

#include "quant/float16.h"

namespace cria {
namespace {

// Scales below this count as zero: their products with an activation's scale (at least 2^-47, see
// docs/numerics.md) could be subnormal.
constexpr float kSmallestScale = 0x1p-64f;

// x + kRoundMagic - kRoundMagic rounds |x| < 2^22 to an integer, half to even, without a library
// call, so that the loops below vectorize.
constexpr float kRoundMagic = 0x1.8p23f;

constexpr float kInt4Low = -8.0f;
constexpr float kInt4High = 7.0f;
constexpr float kInt8High = 127.0f;

// Fractions of the covering scale that kMse tries: shrinking clips the largest weights for a finer
// grid; the values above one let -8 stand for a large positive neighbour's rounding.
constexpr float kInt4Factors[] = {1.06f, 1.03f, 1.0f,  0.97f, 0.94f, 0.91f, 0.88f,
                                  0.85f, 0.82f, 0.79f, 0.76f, 0.72f, 0.68f, 0.64f};
constexpr float kInt8Factors[] = {1.0f, 0.98f, 0.96f, 0.93f, 0.90f, 0.86f, 0.80f, 0.70f};

float round_half_even(float x) { return (x + kRoundMagic) - kRoundMagic; }

float clamp(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

float code_of(float weight, float inverse, float low, float high) {
  // Clamped first: the magic sum wants a small number.
  return round_half_even(clamp(weight * inverse, low, high));
}

// Squared error in which a weight counts by its size. Plain squared error favours the many small
// weights of a group; this costs a trained model less (docs/numerics.md has the perplexities).
float weighted_error(const float* weights, size_t n, float scale, float low, float high) {
  const float inverse = 1.0f / scale;
  constexpr size_t kLanes = 16;
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const float d = weights[i + j] - code_of(weights[i + j], inverse, low, high) * scale;
      lanes[j] += d * d * std::fabs(weights[i + j]);
    }
  }
  for (; i < n; ++i) {
    const float d = weights[i] - code_of(weights[i], inverse, low, high) * scale;
    lanes[0] += d * d * std::fabs(weights[i]);
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// The scale that fits best to the codes another scale gave: sum(w * q) / sum(q * q).
float least_squares_scale(const float* weights, size_t n, float scale, float low, float high) {
  const float inverse = 1.0f / scale;
  float wq = 0, qq = 0;
  for (size_t i = 0; i < n; ++i) {
    const float q = code_of(weights[i], inverse, low, high);
    wq += weights[i] * q;
    qq += q * q;
  }
  return qq > 0 ? wq / qq : scale;
}

struct Range {
  float low;
  float high;
};

Range range_of(const float* weights, size_t n) {
  Range r = {0, 0};
  for (size_t i = 0; i < n; ++i) {
    r.low = weights[i] < r.low ? weights[i] : r.low;
    r.high = weights[i] > r.high ? weights[i] : r.high;
  }
  return r;
}

// The bf16 scale of one int4 group, zero when the group is.
float int4_scale(const float* weights, size_t n, QuantMethod method) {
  const Range r = range_of(weights, n);
  const float for_high = r.high / kInt4High;
  const float for_low = r.low / kInt4Low;
  const float covering = for_high > for_low ? for_high : for_low;
  float best = bf16_to_f32(f32_to_bf16(covering));
  if (!(best >= kSmallestScale)) return 0;
  if (method == QuantMethod::kRtn) return best;
  float best_error = weighted_error(weights, n, best, kInt4Low, kInt4High);
  const auto try_scale = [&](float candidate) {
    const float scale = bf16_to_f32(f32_to_bf16(candidate));
    if (!(scale >= kSmallestScale)) return;
    const float error = weighted_error(weights, n, scale, kInt4Low, kInt4High);
    if (error < best_error) {
      best_error = error;
      best = scale;
    }
  };
  for (const float factor : kInt4Factors) try_scale(covering * factor);
  try_scale(least_squares_scale(weights, n, best, kInt4Low, kInt4High));
  return best;
}

}  // namespace

void quantize_row_int4(const float* weights, size_t cols, size_t group_size, QuantMethod method,
                       size_t padded_cols, int8_t* codes, uint16_t* scales) {
  for (size_t begin = 0; begin < padded_cols; begin += group_size) {
    const size_t n = begin >= cols ? 0 : (cols - begin < group_size ? cols - begin : group_size);
    const float scale = n == 0 ? 0 : int4_scale(weights + begin, n, method);
    scales[begin / group_size] = f32_to_bf16(scale);
    const float inverse = scale > 0 ? 1.0f / scale : 0;
    for (size_t i = 0; i < n; ++i) {
      codes[begin + i] = static_cast<int8_t>(
          static_cast<int>(code_of(weights[begin + i], inverse, kInt4Low, kInt4High)));
    }
    for (size_t i = n; i < group_size; ++i) codes[begin + i] = 0;
  }
}

void quantize_row_int8(const float* weights, size_t cols, QuantMethod method, size_t padded_cols,
                       int8_t* codes, float* scale) {
  const Range r = range_of(weights, cols);
  const float covering = (r.high > -r.low ? r.high : -r.low) / kInt8High;
  float best = covering >= kSmallestScale ? covering : 0;
  if (best > 0 && method == QuantMethod::kMse) {
    float best_error = weighted_error(weights, cols, best, -kInt8High, kInt8High);
    for (const float factor : kInt8Factors) {
      const float error = weighted_error(weights, cols, covering * factor, -kInt8High, kInt8High);
      if (error < best_error && covering * factor >= kSmallestScale) {
        best_error = error;
        best = covering * factor;
      }
    }
  }
  *scale = best;
  const float inverse = best > 0 ? 1.0f / best : 0;
  for (size_t i = 0; i < cols; ++i) {
    codes[i] =
        static_cast<int8_t>(static_cast<int>(code_of(weights[i], inverse, -kInt8High, kInt8High)));
  }
  for (size_t i = cols; i < padded_cols; ++i) codes[i] = 0;
}

namespace {

void add_error(double weight, double stored, ErrorSums* sums) {
  const double error = std::fabs(weight - stored);
  sums->signal += weight * weight;
  sums->noise += error * error;
  if (error > sums->max_error) sums->max_error = error;
}

}  // namespace

void add_error_int4(const float* weights, size_t cols, size_t group_size, const int8_t* codes,
                    const uint16_t* scales, ErrorSums* sums) {
  for (size_t i = 0; i < cols; ++i) {
    const double scale = static_cast<double>(bf16_to_f32(scales[i / group_size]));
    add_error(static_cast<double>(weights[i]), codes[i] * scale, sums);
  }
}

void add_error_int8(const float* weights, size_t cols, const int8_t* codes, float scale,
                    ErrorSums* sums) {
  for (size_t i = 0; i < cols; ++i) {
    add_error(static_cast<double>(weights[i]), codes[i] * static_cast<double>(scale), sums);
  }
}

}  // namespace cria
