#include "quant/quantize.h"

#include <cmath>
#include <cstring>
#include <iterator>

#include "quant/float16.h"
#include "quant/multiversion.h"

namespace cria {
namespace {

// Scales below this count as zero: their products with an activation's scale (at least 2^-47, see
// docs/numerics.md) could be subnormal.
constexpr float kSmallestScale = 0x1p-64f;

// x + kRoundMagic - kRoundMagic rounds |x| < 2^22 to an integer, half to even, without a library
// call, so that the loops below vectorize.
constexpr float kRoundMagic = 0x1.8p23f;

constexpr float kInt8High = 127.0f;

// Fractions of the covering scale that kMse tries: shrinking clips the largest weights for a finer
// grid; the values above one let -8 stand for a large positive neighbour's rounding.
constexpr float kInt4Factors[] = {1.06f, 1.03f, 1.0f,  0.97f, 0.94f, 0.91f, 0.88f,
                                  0.85f, 0.82f, 0.79f, 0.76f, 0.72f, 0.68f, 0.64f};
constexpr float kInt8Factors[] = {1.0f, 0.98f, 0.96f, 0.93f, 0.90f, 0.86f, 0.80f, 0.70f};

// The work is done in lanes, and a sum never crosses two of them in an order of the compiler's, so
// that it runs in vectors and gives the same bits on every machine.
constexpr size_t kLanes = 16;
constexpr size_t kLargestGroup = 128;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef uint32_t Words __attribute__((vector_size(kLanes * sizeof(uint32_t))));
typedef int32_t Ints __attribute__((vector_size(kLanes * sizeof(int32_t))));

// Lanes go by reference: by value they would need one calling convention for every ISA.
#define CRIA_INLINE [[gnu::always_inline]] inline

CRIA_INLINE void load(const float* from, Lanes* to) { std::memcpy(to, from, sizeof *to); }

// codes = round_half_even(weights * inverse), clamped first: the magic sum wants a small number.
CRIA_INLINE void find_codes(const Lanes& weights, const Lanes& inverse, float low, float high,
                            Lanes* codes) {
  const Lanes lows = low - Lanes{};
  const Lanes highs = high - Lanes{};
  Lanes x = weights * inverse;
  x = x < lows ? lows : x;
  x = x > highs ? highs : x;
  *codes = (x + kRoundMagic) - kRoundMagic;
}

CRIA_INLINE void magnitude(const Lanes& x, Lanes* result) {
  *result = (Lanes)((Words)x & 0x7fffffffu);
}

CRIA_INLINE void find_usable(const Lanes& scale, Ints* usable) {
  Lanes size;
  magnitude(scale, &size);
  *usable = size >= kSmallestScale;
}

// Squared error in which a weight counts by its size. Plain squared error favours the many small
// weights of a group; this costs a trained model less (docs/numerics.md has the perplexities).
CRIA_INLINE void add_weighted_error(const Lanes& weights, const Lanes& stored, Lanes* sum) {
  const Lanes d = weights - stored;
  Lanes size;
  magnitude(weights, &size);
  *sum += d * d * size;
}

// Rounds to bf16, ties to even.
CRIA_INLINE void round_to_bf16(Lanes* x) {
  Words bits = (Words)*x;
  bits += 0x7fffu + (bits >> 16 & 1u);
  *x = (Lanes)(bits & 0xffff0000u);
}

// The values that codes stand for, from kLow to kHigh. nearest() gives those next to weights *
// inverse, codes_of() their codes.
struct EvenGrid {
  static constexpr float kLow = -8.0f;
  static constexpr float kHigh = 7.0f;
  CRIA_INLINE static void nearest(const Lanes& weights, const Lanes& inverse, Lanes* values) {
    find_codes(weights, inverse, kLow, kHigh, values);
  }
  CRIA_INLINE static void codes_of(const Lanes& weights, const Lanes& inverse, Lanes* codes) {
    nearest(weights, inverse, codes);
  }
};

// Values that lie midway take the lower one.
struct NlGrid {
  static constexpr size_t kValues = std::size(kInt4NlValues);
  static constexpr float kLow = kInt4NlValues[0];
  static constexpr float kHigh = kInt4NlValues[kValues - 1];
  static constexpr float kLowestCode = -8.0f;

  static constexpr float middle(size_t i) {
    return 0.5f * static_cast<float>(kInt4NlValues[i - 1] + kInt4NlValues[i]);
  }
  static constexpr float step(size_t i) {
    return static_cast<float>(kInt4NlValues[i] - kInt4NlValues[i - 1]);
  }
  CRIA_INLINE static void nearest(const Lanes& weights, const Lanes& inverse, Lanes* values) {
    const Lanes x = weights * inverse;
    Lanes sum = kLow - Lanes{};
#pragma GCC unroll 16
    for (size_t i = 1; i < kValues; ++i) sum += x > middle(i) ? step(i) - Lanes{} : Lanes{};
    *values = sum;
  }
  CRIA_INLINE static void codes_of(const Lanes& weights, const Lanes& inverse, Lanes* codes) {
    const Lanes x = weights * inverse;
    Lanes sum = kLowestCode - Lanes{};
#pragma GCC unroll 16
    for (size_t i = 1; i < kValues; ++i) sum += x > middle(i) ? 1.0f - Lanes{} : Lanes{};
    *codes = sum;
  }
};

// Groups of int4 weights, kLanes at a time: a lane for each, so that nothing is summed across.
template <class Grid>
class GroupSearch {
 public:
  CRIA_INLINE explicit GroupSearch(size_t group_size) : group_size_(group_size) {}

  // A lane's group: its n first weights, and zeros for what is missing.
  CRIA_INLINE void take(size_t lane, const float* weights, size_t n) {
    for (size_t i = 0; i < n; ++i) values_[i * kLanes + lane] = weights[i];
    for (size_t i = n; i < group_size_; ++i) values_[i * kLanes + lane] = 0.0f;
  }

  // The scale of each group, bf16 values; zero when the group is, or nearly.
  CRIA_INLINE void find_scales(QuantMethod method, ScaleSigns signs, Lanes* scales) const {
    Lanes covering, opposite;
    find_covering(&covering, &opposite);
    if (signs == ScaleSigns::kBoth) {
      // The direction in which the grid reaches the largest weight with -8, so with less scale.
      Lanes size;
      magnitude(opposite, &size);
      const Ints turn = size < covering;
      const Lanes first = turn ? opposite : covering;
      opposite = turn ? covering : opposite;
      covering = first;
    }
    *scales = covering;
    round_to_bf16(scales);
    Ints usable;
    find_usable(*scales, &usable);
    if (method == QuantMethod::kMse) {
      Lanes best_error;
      find_error(*scales, &best_error);
      for (const float factor : kInt4Factors) {
        try_scale(covering * factor, scales, &best_error);
        if (signs == ScaleSigns::kBoth) try_scale(opposite * factor, scales, &best_error);
      }
      Lanes fitted;
      fit_scale(*scales, &fitted);
      try_scale(fitted, scales, &best_error);
    }
    *scales = usable ? *scales : Lanes{};
  }

  // Codes of the first n_groups groups.
  CRIA_INLINE void find_codes_of(const Lanes& scales, size_t n_groups, int8_t* codes) const {
    const Lanes inverse = scales != 0.0f ? 1.0f / scales : Lanes{};
    for (size_t i = 0; i < group_size_; ++i) {
      Lanes weights, rounded;
      load(values_ + i * kLanes, &weights);
      Grid::codes_of(weights, inverse, &rounded);
      const Ints whole = __builtin_convertvector(rounded, Ints);
      int32_t values[kLanes];
      std::memcpy(values, &whole, sizeof values);
      for (size_t lane = 0; lane < n_groups; ++lane) {
        codes[lane * group_size_ + i] = static_cast<int8_t>(values[lane]);
      }
    }
  }

 private:
  // The positive scale at which the grid just reaches the largest weight, and the negative one.
  CRIA_INLINE void find_covering(Lanes* scale, Lanes* opposite) const {
    Lanes low = {};
    Lanes high = {};
    for (size_t i = 0; i < group_size_; ++i) {
      Lanes weights;
      load(values_ + i * kLanes, &weights);
      low = weights < low ? weights : low;
      high = weights > high ? weights : high;
    }
    const Lanes for_high = high / Grid::kHigh;
    const Lanes for_low = low / Grid::kLow;
    *scale = for_high > for_low ? for_high : for_low;
    const Lanes turned_high = high / Grid::kLow;
    const Lanes turned_low = low / Grid::kHigh;
    *opposite = turned_high < turned_low ? turned_high : turned_low;
  }

  CRIA_INLINE void find_error(const Lanes& scale, Lanes* error) const {
    const Lanes inverse = 1.0f / scale;
    Lanes sum = {};
    for (size_t i = 0; i < group_size_; ++i) {
      Lanes weights;
      load(values_ + i * kLanes, &weights);
      Lanes values;
      Grid::nearest(weights, inverse, &values);
      add_weighted_error(weights, values * scale, &sum);
    }
    *error = sum;
  }

  CRIA_INLINE void try_scale(const Lanes& candidate, Lanes* best, Lanes* best_error) const {
    Lanes scale = candidate;
    round_to_bf16(&scale);
    Lanes error;
    find_error(scale, &error);
    Ints usable;
    find_usable(scale, &usable);
    const Ints better = (error < *best_error) & usable;
    *best = better ? scale : *best;
    *best_error = better ? error : *best_error;
  }

  // The scale that fits best to the codes another scale gives: sum(w * q) / sum(q * q).
  CRIA_INLINE void fit_scale(const Lanes& scale, Lanes* fitted) const {
    const Lanes inverse = 1.0f / scale;
    Lanes wq = {};
    Lanes qq = {};
    for (size_t i = 0; i < group_size_; ++i) {
      Lanes weights, codes;
      load(values_ + i * kLanes, &weights);
      Grid::nearest(weights, inverse, &codes);
      wq += weights * codes;
      qq += codes * codes;
    }
    *fitted = qq > 0.0f ? wq / qq : scale;
  }

  alignas(64) float values_[kLargestGroup * kLanes];
  size_t group_size_;
};

// A row of int8 weights, element i in lane i % kLanes.
CRIA_INLINE float int8_error(const float* weights, size_t n, float scale) {
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
    add_weighted_error(part, codes * scales, &sum);
  }
  float all = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) all += sum[lane];
  return all;
}

CRIA_INLINE float largest_size(const float* weights, size_t n) {
  float largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const float size = std::fabs(weights[i]);
    largest = size > largest ? size : largest;
  }
  return largest;
}

template <class Grid>
CRIA_INLINE void quantize_rows(const MatrixShape& shape, const float* weights, size_t n_rows,
                               QuantMethod method, ScaleSigns signs, int8_t* codes,
                               uint16_t* scales) {
  const size_t cols = shape.cols;
  const size_t group_size = shape.group_size;
  const size_t row_groups = padded_cols(shape) / group_size;
  const size_t n_groups = n_rows * row_groups;
  GroupSearch<Grid> search(group_size);
  for (size_t begin = 0; begin < n_groups; begin += kLanes) {
    const size_t n_lanes = n_groups - begin < kLanes ? n_groups - begin : kLanes;
    for (size_t lane = 0; lane < n_lanes; ++lane) {
      const size_t row = (begin + lane) / row_groups;
      const size_t col = (begin + lane) % row_groups * group_size;
      const size_t left = cols - col;
      search.take(lane, weights + row * cols + col, left < group_size ? left : group_size);
    }
    for (size_t lane = n_lanes; lane < kLanes; ++lane) search.take(lane, weights, 0);
    Lanes found;
    search.find_scales(method, signs, &found);
    search.find_codes_of(found, n_lanes, codes + begin * group_size);
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
CRIA_INLINE void add_error(const float* weights, size_t n, const int8_t* codes, double scale,
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

CRIA_MULTIVERSION void add_error_int4(const MatrixShape& shape, const float* weights,
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

#undef CRIA_INLINE

}  // namespace cria
