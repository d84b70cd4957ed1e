#include "quant/numbers/quantize.h"

#include <bit>
#include <cstring>
#include <iterator>

#include "quant/numbers/float16.h"
#include "quant/numbers/group_search.h"
#include "quant/numbers/multiversion.h"
#include "quant/numbers/turn_words.h"

namespace cria {
namespace {

constexpr float kInt8High = 127.0f;

constexpr float kInt8Factors[] = {1.0f, 0.98f, 0.96f, 0.93f, 0.90f, 0.86f, 0.80f, 0.70f};

// The next of n weights that are left, zeros in the lanes after them.
CRIA_LANES_INLINE void load_part(const float* weights, size_t n, Lanes* part) {
  if (n >= kLanes) return load(weights, part);
  *part = Lanes{};
  std::memcpy(part, weights, n * sizeof(float));
}

CRIA_LANES_INLINE void add_int8_error(const Lanes& weights, const Lanes& scales,
                                      const Lanes& inverse, Lanes* sum) {
  Lanes codes;
  find_codes(weights, inverse, -kInt8High, kInt8High, &codes);
  const Lanes d = weights - codes * scales;
  Lanes squared = d * d;
  BySize().weigh(0, weights, &squared);
  *sum += squared;
}

// A row of int8 weights, element i in lane i % kLanes. In steps, as the search for groups is.
CRIA_LANES_INLINE float int8_error(const float* weights, size_t n, float scale) {
  constexpr size_t kStep = 8 * kLanes;
  const Lanes scales = scale - Lanes{};
  const Lanes inverse = 1.0f / scales;
  Lanes sum = {};
  Lanes part;
  size_t begin = 0;
  for (; begin + kStep <= n; begin += kStep) {
#pragma GCC unroll 8
    for (size_t i = begin; i < begin + kStep; i += kLanes) {
      load(weights + i, &part);
      add_int8_error(part, scales, inverse, &sum);
    }
  }
  for (size_t i = begin; i < n; i += kLanes) {
    load_part(weights + i, n - i, &part);
    add_int8_error(part, scales, inverse, &sum);
  }
  float all = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) all += sum[lane];
  return all;
}

// Sizes of floats order as their bits do.
CRIA_LANES_INLINE float largest_size(const float* weights, size_t n) {
  LaneInts largest = {};
  for (size_t i = 0; i < n; i += kLanes) {
    Lanes size;
    load_part(weights + i, n - i, &size);
    magnitude(size, &size);
    largest = (LaneInts)size > largest ? (LaneInts)size : largest;
  }
  int32_t all = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) all = largest[lane] > all ? largest[lane] : all;
  return std::bit_cast<float>(all);
}

constexpr size_t kWordCodes = sizeof(uint32_t);

// Codes of the groups of values, as int8 and four a word: words [group_size / 4][kLanes].
template <class Grid>
CRIA_LANES_INLINE void find_code_words(const float* values, size_t group_size, const Lanes& scales,
                                       uint32_t* words) {
  Lanes inverse;
  invert(scales, &inverse);
  for (size_t i = 0; i < group_size; i += kWordCodes) {
    LaneWords word = {};
#pragma GCC unroll 4
    for (size_t j = 0; j < kWordCodes; ++j) {
      Lanes weights, codes;
      load(values + (i + j) * kLanes, &weights);
      Grid::codes_of(weights, inverse, &codes);
      const LaneInts whole = __builtin_convertvector(codes, LaneInts);
      word |= ((LaneWords)whole & 0xffu) << (8 * j);
    }
    std::memcpy(words + i / kWordCodes * kLanes, &word, sizeof word);
  }
}

// Copies n_groups groups of a matrix from one on to out [kLanes][group_size]. What the last group
// of a row lacks, and groups from n_groups on, are zeros.
CRIA_LANES_INLINE void copy_groups(const MatrixShape& shape, const float* weights, size_t first,
                                   size_t n_groups, float* out) {
  const size_t cols = shape.cols;
  const size_t group_size = shape.group_size;
  const size_t row_groups = padded_cols(shape) / group_size;
  std::memset(out, 0, kLanes * group_size * sizeof(float));
  for (size_t i = 0; i < n_groups; ++i) {
    const size_t row = (first + i) / row_groups;
    const size_t col = (first + i) % row_groups * group_size;
    const size_t n = cols - col < group_size ? cols - col : group_size;
    std::memcpy(out + i * group_size, weights + row * cols + col, n * sizeof(float));
  }
}

template <class Grid>
CRIA_LANES_INLINE void quantize_rows(const MatrixShape& shape, const float* weights, size_t n_rows,
                                     QuantMethod method, ScaleSigns signs, int8_t* codes,
                                     uint16_t* scales) {
  const size_t group_size = shape.group_size;
  const size_t n_groups = n_rows * padded_cols(shape) / group_size;
  alignas(64) float copied[kLanes * kLargestGroup];
  alignas(64) float values[kLargestGroup * kLanes];
  alignas(64) uint32_t words[kLargestGroup / kWordCodes * kLanes];
  alignas(64) int8_t code_rows[kLanes * kLargestGroup];
  const GroupSearch<Grid, BySize> search(values, group_size, {});
  for (size_t begin = 0; begin < n_groups; begin += kLanes) {
    const size_t n_lanes = n_groups - begin < kLanes ? n_groups - begin : kLanes;
    if (n_lanes == kLanes && shape.cols % group_size == 0) {
      turn_words(weights + begin * group_size, kLanes, group_size, values);
    } else {
      copy_groups(shape, weights, begin, n_lanes, copied);
      turn_words(copied, kLanes, group_size, values);
    }
    Lanes found;
    search.find_scales(method, signs, &found);
    find_code_words<Grid>(values, group_size, found, words);
    turn_words(words, group_size / kWordCodes, kLanes, code_rows);
    std::memcpy(codes + begin * group_size, code_rows, n_lanes * group_size);
    for (size_t lane = 0; lane < n_lanes; ++lane) scales[begin + lane] = f32_to_bf16(found[lane]);
  }
}

}  // namespace

CRIA_MULTIVERSION void quantize_groups(const MatrixShape& shape, const float* weights,
                                       size_t n_rows, QuantMethod method, ScaleSigns signs,
                                       int8_t* codes, uint16_t* scales) {
  using format::NumberFormat;
  switch (shape.number_format) {
    case NumberFormat::kInt4:
      return quantize_rows<EvenGrid>(shape, weights, n_rows, method, signs, codes, scales);
    case NumberFormat::kInt4Nl:
      return quantize_rows<NlGrid>(shape, weights, n_rows, method, signs, codes, scales);
    case NumberFormat::kInt8G32:
      return quantize_rows<Int8Grid>(shape, weights, n_rows, method, signs, codes, scales);
    case NumberFormat::kF32:
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
    case NumberFormat::kInt8:
    case NumberFormat::kBit1:
    case NumberFormat::kBit2:
      break;
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

// Errors are summed in eight lanes, weight i of a group in lane i % kSums, by fours: as many
// doubles as AVX2 has in a register.
constexpr size_t kSums = 8;
constexpr size_t kDoubles = 4;
constexpr size_t kParts = kSums / kDoubles;
typedef double Doubles __attribute__((vector_size(kDoubles * sizeof(double))));
typedef uint64_t DoubleBits __attribute__((vector_size(kDoubles * sizeof(uint64_t))));

struct LaneSums {
  Doubles signal[kParts];
  Doubles noise[kParts];
};

// The largest error of each lane, of all groups.
struct LargestErrors {
  Doubles lanes[kParts];
};

CRIA_LANES_INLINE void widen(const float* from, Doubles* to) {
  *to = Doubles{static_cast<double>(from[0]), static_cast<double>(from[1]),
                static_cast<double>(from[2]), static_cast<double>(from[3])};
}

// Weights and the values of their codes, [kSums] each.
CRIA_LANES_INLINE void add_part(const float* weights, const float* values, double scale,
                                LaneSums* sums, LargestErrors* largest) {
  constexpr uint64_t kMagnitude = ~uint64_t{0} >> 1;
  for (size_t i = 0; i < kParts; ++i) {
    Doubles weight, value;
    widen(weights + i * kDoubles, &weight);
    widen(values + i * kDoubles, &value);
    const Doubles d = weight - value * scale;
    const auto size = (Doubles)((DoubleBits)d & kMagnitude);
    sums->signal[i] += weight * weight;
    sums->noise[i] += d * d;
    largest->lanes[i] = size > largest->lanes[i] ? size : largest->lanes[i];
  }
}

// Adds the errors of n weights that share a scale to sums, but the largest to largest.
CRIA_LANES_INLINE void add_error(const float* weights, size_t n, const int8_t* codes, bool is_nl,
                                 double scale, ErrorSums* sums, LargestErrors* largest) {
  LaneSums lanes = {};
  for (size_t begin = 0; begin < n; begin += kLargestGroup) {
    const size_t n_part = n - begin < kLargestGroup ? n - begin : kLargestGroup;
    const float* const from = weights + begin;
    float values[kLargestGroup];
    for (size_t i = 0; i < n_part; ++i) {
      const int8_t code = codes[begin + i];
      values[i] = is_nl ? kInt4NlValues[code + kNibbleZero] : code;
    }
    const size_t n_whole = n_part / kSums * kSums;
    for (size_t i = 0; i < n_whole; i += kSums) {
      add_part(from + i, values + i, scale, &lanes, largest);
    }
    if (n_whole < n_part) {
      const size_t n_last = n_part - n_whole;
      float last_weights[kSums] = {};
      float last_values[kSums] = {};
      std::memcpy(last_weights, from + n_whole, n_last * sizeof(float));
      std::memcpy(last_values, values + n_whole, n_last * sizeof(float));
      add_part(last_weights, last_values, scale, &lanes, largest);
    }
  }
  for (size_t i = 0; i < kSums; ++i) {
    sums->signal += lanes.signal[i / kDoubles][i % kDoubles];
    sums->noise += lanes.noise[i / kDoubles][i % kDoubles];
  }
}

CRIA_LANES_INLINE void take_largest(const LargestErrors& largest, ErrorSums* sums) {
  for (size_t i = 0; i < kSums; ++i) {
    const double error = largest.lanes[i / kDoubles][i % kDoubles];
    sums->max_error = error > sums->max_error ? error : sums->max_error;
  }
}

}  // namespace

CRIA_MULTIVERSION void add_error_groups(const MatrixShape& shape, const float* weights,
                                        const int8_t* codes, const uint16_t* scales,
                                        ErrorSums* sums) {
  const bool is_nl = shape.number_format == format::NumberFormat::kInt4Nl;
  const size_t group_size = shape.group_size;
  LargestErrors largest = {};
  for (size_t begin = 0; begin < shape.cols; begin += group_size) {
    const size_t n = shape.cols - begin < group_size ? shape.cols - begin : group_size;
    const double scale =
        static_cast<double>(group_scale(shape.number_format, scales[begin / group_size]));
    int8_t values[kLargestGroup];
    const int8_t* from = codes + begin;
    if (is_trained_bits(shape.number_format)) {
      for (size_t i = 0; i < n; ++i) {
        values[i] = static_cast<int8_t>(value_of_code(shape.number_format, from[i]));
      }
      from = values;
    }
    add_error(weights + begin, n, from, is_nl, scale, sums, &largest);
  }
  take_largest(largest, sums);
}

CRIA_MULTIVERSION void add_error_int8(const float* weights, size_t cols, const int8_t* codes,
                                      float scale, ErrorSums* sums) {
  LargestErrors largest = {};
  add_error(weights, cols, codes, false, static_cast<double>(scale), sums, &largest);
  take_largest(largest, sums);
}

}  // namespace cria
