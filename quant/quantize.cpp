#include "quant/quantize.h"

#include <cmath>
#include <cstring>
#include <iterator>

#include "quant/float16.h"
#include "quant/group_search.h"
#include "quant/multiversion.h"

namespace cria {
namespace {

constexpr float kInt8High = 127.0f;

constexpr float kInt8Factors[] = {1.0f, 0.98f, 0.96f, 0.93f, 0.90f, 0.86f, 0.80f, 0.70f};

constexpr size_t kLargestGroup = 128;

// A row of int8 weights, element i in lane i % kLanes.
CRIA_LANES_INLINE float int8_error(const float* weights, size_t n, float scale) {
  const Lanes scales = scale - Lanes{};
  const Lanes inverse = 1.0f / scales;
  Lanes sum = {};
  size_t i = 0;
  for (; i < n; i += kLanes) {
    Lanes part = {};
    if (i + kLanes <= n) {
      load(weights + i, &part);
    } else {
      std::memcpy(&part, weights + i, (n - i) * sizeof(float));
    }
    Lanes codes;
    find_codes(part, inverse, -kInt8High, kInt8High, &codes);
    const Lanes d = part - codes * scales;
    Lanes squared = d * d;
    BySize().weigh(i, part, &squared);
    sum += squared;
  }
  float all = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) all += sum[lane];
  return all;
}

CRIA_LANES_INLINE float largest_size(const float* weights, size_t n) {
  float largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const float size = std::fabs(weights[i]);
    largest = size > largest ? size : largest;
  }
  return largest;
}

// Codes of the first n_groups of values' groups, [n_groups][group_size].
template <class Grid>
CRIA_LANES_INLINE void find_codes_of(const float* values, size_t group_size, const Lanes& scales,
                                     size_t n_groups, int8_t* codes) {
  Lanes inverse;
  invert(scales, &inverse);
  for (size_t i = 0; i < group_size; ++i) {
    Lanes weights, rounded;
    load(values + i * kLanes, &weights);
    Grid::codes_of(weights, inverse, &rounded);
    const LaneInts whole = __builtin_convertvector(rounded, LaneInts);
    int32_t of_lanes[kLanes];
    std::memcpy(of_lanes, &whole, sizeof of_lanes);
    for (size_t lane = 0; lane < n_groups; ++lane) {
      codes[lane * group_size + i] = static_cast<int8_t>(of_lanes[lane]);
    }
  }
}

template <class Grid>
CRIA_LANES_INLINE void quantize_rows(const MatrixShape& shape, const float* weights, size_t n_rows,
                                     QuantMethod method, ScaleSigns signs, int8_t* codes,
                                     uint16_t* scales) {
  const size_t cols = shape.cols;
  const size_t group_size = shape.group_size;
  const size_t row_groups = padded_cols(shape) / group_size;
  const size_t n_groups = n_rows * row_groups;
  alignas(64) float values[kLargestGroup * kLanes];
  const GroupSearch<Grid, BySize> search(values, group_size, {});
  for (size_t begin = 0; begin < n_groups; begin += kLanes) {
    const size_t n_lanes = n_groups - begin < kLanes ? n_groups - begin : kLanes;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const size_t row = (begin + lane) / row_groups;
      const size_t col = (begin + lane) % row_groups * group_size;
      const size_t left = lane < n_lanes ? cols - col : 0;
      const size_t n = left < group_size ? left : group_size;
      const float* const from = weights + (n > 0 ? row * cols + col : 0);
      for (size_t i = 0; i < n; ++i) values[i * kLanes + lane] = from[i];
      for (size_t i = n; i < group_size; ++i) values[i * kLanes + lane] = 0.0f;
    }
    Lanes found;
    search.find_scales(method, signs, &found);
    find_codes_of<Grid>(values, group_size, found, n_lanes, codes + begin * group_size);
    for (size_t lane = 0; lane < n_lanes; ++lane) scales[begin + lane] = f32_to_bf16(found[lane]);
  }
}

}  // namespace

CRIA_MULTIVERSION void quantize_rows_int4(const MatrixShape& shape, const float* weights,
                                          size_t n_rows, QuantMethod method, ScaleSigns signs,
                                          int8_t* codes, uint16_t* scales) {
  if (shape.number_format == format::NumberFormat::kInt4Nl) {
    quantize_rows<NlGrid>(shape, weights, n_rows, method, signs, codes, scales);
  } else {
    quantize_rows<EvenGrid>(shape, weights, n_rows, method, signs, codes, scales);
  }
}

CRIA_MULTIVERSION void quantize_rows_int8g32(const MatrixShape& shape, const float* weights,
                                             size_t n_rows, QuantMethod method, int8_t* codes,
                                             uint16_t* scales) {
  quantize_rows<Int8Grid>(shape, weights, n_rows, method, ScaleSigns::kPositive, codes, scales);
}

CRIA_MULTIVERSION void quantize_row_int8(const float* weights, size_t cols, QuantMethod method,
                                         size_t padded_cols, int8_t* codes, float* scale) {
  const float covering = largest_size(weights, cols) / kInt8High;
  float best = covering >= kSmallestScale ? covering : 0;
  if (best > 0 && method == QuantMethod::kMse) {
    float best_error = int8_error(weights, cols, best);
    for (const float factor : kInt8Factors) {
      const float error = int8_error(weights, cols, covering * factor);
      if (error < best_error && covering * factor >= kSmallestScale) {
        best_error = error;
        best = covering * factor;
      }
    }
  }
  *scale = best;
  const float inverse = best > 0 ? 1.0f / best : 0;
  for (size_t i = 0; i < cols; ++i) {
    const float x = weights[i] * inverse;
    const float raised = x < -kInt8High ? -kInt8High : x;
    const float clamped = raised > kInt8High ? kInt8High : raised;
    codes[i] = static_cast<int8_t>(static_cast<int>((clamped + kRoundMagic) - kRoundMagic));
  }
  for (size_t i = cols; i < padded_cols; ++i) codes[i] = 0;
}

namespace {

// Adds the errors of n weights that share a scale.
CRIA_LANES_INLINE void add_error(const float* weights, size_t n, const int8_t* codes, double scale,
                                 ErrorSums* sums) {
  typedef double Doubles __attribute__((vector_size(8 * sizeof(double))));
  constexpr size_t kDoubles = 8;
  Doubles signal = {};
  Doubles noise = {};
  Doubles largest = {};
  for (size_t i = 0; i < n; i += kDoubles) {
    float w[kDoubles] = {};
    int8_t c[kDoubles] = {};
    const size_t n_part = n - i < kDoubles ? n - i : kDoubles;
    if (n_part == kDoubles) {
      std::memcpy(w, weights + i, sizeof w);
      std::memcpy(c, codes + i, sizeof c);
    } else {
      std::memcpy(w, weights + i, n_part * sizeof(float));
      std::memcpy(c, codes + i, n_part);
    }
    Doubles weight, code;
    for (size_t j = 0; j < kDoubles; ++j) weight[j] = static_cast<double>(w[j]);
    for (size_t j = 0; j < kDoubles; ++j) code[j] = c[j];
    const Doubles d = weight - code * scale;
    const Doubles error = d < 0.0 ? -d : d;
    signal += weight * weight;
    noise += d * d;
    largest = error > largest ? error : largest;
  }
  for (size_t j = 0; j < kDoubles; ++j) {
    sums->signal += signal[j];
    sums->noise += noise[j];
    sums->max_error = largest[j] > sums->max_error ? largest[j] : sums->max_error;
  }
}

}  // namespace

CRIA_MULTIVERSION void add_error_groups(const MatrixShape& shape, const float* weights,
                                        const int8_t* codes, const uint16_t* scales,
                                        ErrorSums* sums) {
  const size_t group_size = shape.group_size;
  int8_t values[kLargestGroup];
  for (size_t begin = 0; begin < shape.cols; begin += group_size) {
    const size_t n = shape.cols - begin < group_size ? shape.cols - begin : group_size;
    const double scale = static_cast<double>(bf16_to_f32(scales[begin / group_size]));
    const bool is_nl = shape.number_format == format::NumberFormat::kInt4Nl;
    for (size_t i = 0; i < n; ++i) {
      const int8_t code = codes[begin + i];
      values[i] = is_nl ? kInt4NlValues[code + kNibbleZero] : code;
    }
    add_error(weights + begin, n, values, scale, sums);
  }
}

CRIA_MULTIVERSION void add_error_int8(const float* weights, size_t cols, const int8_t* codes,
                                      float scale, ErrorSums* sums) {
  add_error(weights, cols, codes, static_cast<double>(scale), sums);
}

}  // namespace cria
