// The search for scales and codes in lanes, and the sums of its errors, beside the same arithmetic
// said plainly: a group after the other, a weight after the other, and every candidate to its end.
#include "quant/numbers/group_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "quant/numbers/float16.h"
#include "quant/numbers/quantize.h"
#include "quant/numbers/turn_words.h"
#include "tests/support/seeds.h"

namespace cria {
namespace {

using format::NumberFormat;

struct PlainGrid {
  NumberFormat number_format;
  float low;
  float high;
  std::span<const float> factors;

  [[nodiscard]] bool is_nl() const { return number_format == NumberFormat::kInt4Nl; }

  [[nodiscard]] int code(float x) const {
    if (!is_nl()) return static_cast<int>(std::nearbyint(std::min(std::max(x, low), high)));
    int code = -kNibbleZero;
    for (size_t i = 1; i < std::size(kInt4NlValues); ++i) {
      const int sum = kInt4NlValues[i - 1] + kInt4NlValues[i];
      code += x > 0.5f * static_cast<float>(sum) ? 1 : 0;
    }
    return code;
  }
  [[nodiscard]] float value(float x) const {
    return static_cast<float>(value_of_code(number_format, code(x)));
  }
};

PlainGrid grid_of(NumberFormat f) {
  if (f == NumberFormat::kInt4) return {f, -8, 7, kInt4Factors};
  if (f == NumberFormat::kInt4Nl) return {f, kInt4NlValues[0], kInt4NlValues[15], kInt4Factors};
  return {f, -127, 127, kInt8GroupFactors};
}

bool is_usable(float scale) { return std::fabs(scale) >= kSmallestScale; }
float bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }

float error_of(const PlainGrid& grid, std::span<const float> group, float scale) {
  const float inverse = 1.0f / scale;
  float sum = 0;
  for (const float w : group) {
    const float d = w - grid.value(w * inverse) * scale;
    sum += d * d * std::fabs(w);
  }
  return sum;
}

float fitted_scale(const PlainGrid& grid, std::span<const float> group, float scale) {
  const float inverse = 1.0f / scale;
  float wq = 0;
  float qq = 0;
  for (const float w : group) {
    const float q = grid.value(w * inverse);
    wq += w * q;
    qq += q * q;
  }
  return qq > 0 ? wq / qq : scale;
}

// Of a group with zeros for what it lacks.
float plain_scale(const PlainGrid& grid, std::span<const float> group, QuantMethod method,
                  ScaleSigns signs) {
  const float low = std::min(0.0f, *std::min_element(group.begin(), group.end()));
  const float high = std::max(0.0f, *std::max_element(group.begin(), group.end()));
  float covering = std::max(high / grid.high, low / grid.low);
  float opposite = std::min(high / grid.low, low / grid.high);
  const bool both = signs == ScaleSigns::kBoth;
  if (both && std::fabs(opposite) < covering) std::swap(covering, opposite);
  float best = bf16(covering);
  if (!is_usable(best)) return 0;
  if (method == QuantMethod::kRtn) return best;
  float best_error = error_of(grid, group, best);
  const auto try_scale = [&](float candidate) {
    const float scale = bf16(candidate);
    const float error = is_usable(scale) ? error_of(grid, group, scale) : best_error;
    if (!(error < best_error)) return;
    best = scale;
    best_error = error;
  };
  for (const float factor : grid.factors) {
    try_scale(covering * factor);
    if (both) try_scale(opposite * factor);
  }
  try_scale(fitted_scale(grid, group, best));
  return best;
}

struct Rows {
  std::vector<int8_t> codes;
  std::vector<uint16_t> scales;
};

Rows plain_rows(const MatrixShape& shape, const std::vector<float>& weights, QuantMethod method,
                ScaleSigns signs) {
  const PlainGrid grid = grid_of(shape.number_format);
  Rows rows;
  for (size_t row = 0; row < shape.rows; ++row) {
    for (size_t begin = 0; begin < shape.cols; begin += shape.group_size) {
      const size_t n = std::min<size_t>(shape.group_size, shape.cols - begin);
      std::vector<float> group(shape.group_size);
      std::copy_n(weights.begin() + static_cast<std::ptrdiff_t>(row * shape.cols + begin), n,
                  group.begin());
      const float scale = plain_scale(grid, group, method, signs);
      const float inverse = scale != 0 ? 1.0f / scale : 0;
      rows.scales.push_back(f32_to_bf16(scale));
      for (const float w : group) rows.codes.push_back(static_cast<int8_t>(grid.code(w * inverse)));
    }
  }
  return rows;
}

Rows rows_in_lanes(const MatrixShape& shape, const std::vector<float>& weights, QuantMethod method,
                   ScaleSigns signs) {
  Rows rows = {std::vector<int8_t>(shape.rows * padded_cols(shape), 99), {}};
  rows.scales.resize(rows.codes.size() / shape.group_size);
  quantize_groups(shape, weights.data(), shape.rows, method, signs, rows.codes.data(),
                  rows.scales.data());
  return rows;
}

// Every way of quantizing a matrix.
void compare(uint32_t n_rows, uint32_t cols, const std::vector<float>& weights) {
  for (const MatrixFormat& f : kMatrixFormats) {
    if (!has_group_scales(f.number_format) || is_trained_bits(f.number_format)) continue;
    const MatrixShape shape = {n_rows, cols, f.number_format, f.group_size};
    for (const QuantMethod method : {QuantMethod::kRtn, QuantMethod::kMse}) {
      for (const ScaleSigns signs : {ScaleSigns::kPositive, ScaleSigns::kBoth}) {
        if (signs == ScaleSigns::kBoth && !may_be_signed(f.number_format)) continue;
        const Rows plain = plain_rows(shape, weights, method, signs);
        const Rows lanes = rows_in_lanes(shape, weights, method, signs);
        ASSERT_EQ(lanes.scales, plain.scales)
            << number_format_name(f.number_format) << f.group_size;
        ASSERT_EQ(lanes.codes, plain.codes) << number_format_name(f.number_format) << f.group_size;
      }
    }
  }
}

// Full lanes and lacking ones, whole groups and cut ones.
TEST(GroupSearch, FindsWhatPlainLoopsFind) {
  std::mt19937 random(31);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  for (const uint32_t cols : {1u, 31u, 32u, 65u, 128u, 200u, 384u}) {
    for (const uint32_t n_rows : {1u, 3u, 16u}) {
      std::vector<float> weights(size_t{n_rows} * cols);
      for (float& w : weights) w = normal(random);
      SCOPED_TRACE(std::to_string(n_rows) + " rows of " + std::to_string(cols));
      compare(n_rows, cols, weights);
    }
  }
}

// A largest weight that rules candidates out in some lanes and not in others, ties, zeros, signed
// too, and weights whose errors are infinite or vanish.
void compare_odd_groups(uint32_t seed) {
  constexpr uint32_t kRows = 16;
  constexpr uint32_t kCols = 256;
  std::mt19937 generator(seed);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  for (int round = 0; round < 60; ++round) {
    std::vector<float> weights(size_t{kRows} * kCols);
    uint32_t exponent = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (i % 32 == 0) exponent = round % 3 == 0 ? random() % 0xff : 100 + random() % 30;
      const uint32_t e = exponent - std::min(exponent, random() % 6);
      weights[i] = std::bit_cast<float>((random() & 0x807fffff) | e << 23);
      if (random() % 8 == 0) weights[i] = random() % 2 == 0 ? 0.0f : -0.0f;
      if (round % 4 == 1) weights[i] = static_cast<float>(random() % 9) - 4.0f;
      if (round % 4 == 2 && random() % 16 != 0) weights[i] *= 0x1p-9f;
      if (i / 512 % 3 == 1 && round % 5 == 0) weights[i] = 0;
    }
    SCOPED_TRACE(round);
    compare(kRows, kCols, weights);
  }
}

TEST(GroupSearch, FindsWhatPlainLoopsFindInOddGroups) {
  test::for_each_seed({37}, compare_odd_groups);
}

// Eight sums a group, weight i in sum i % 8, which are added in order.
void add_plain_errors(std::span<const float> weights, std::span<const int> values, double scale,
                      ErrorSums* sums) {
  constexpr size_t kSums = 8;
  double signal[kSums] = {};
  double noise[kSums] = {};
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto weight = static_cast<double>(weights[i]);
    const double d = weight - values[i] * scale;
    signal[i % kSums] += weight * weight;
    noise[i % kSums] += d * d;
    sums->max_error = std::max(sums->max_error, std::fabs(d));
  }
  for (size_t i = 0; i < kSums; ++i) {
    sums->signal += signal[i];
    sums->noise += noise[i];
  }
}

void expect_same(const ErrorSums& a, const ErrorSums& b) {
  EXPECT_EQ(std::bit_cast<uint64_t>(a.signal), std::bit_cast<uint64_t>(b.signal));
  EXPECT_EQ(std::bit_cast<uint64_t>(a.noise), std::bit_cast<uint64_t>(b.noise));
  EXPECT_EQ(std::bit_cast<uint64_t>(a.max_error), std::bit_cast<uint64_t>(b.max_error));
}

TEST(GroupSearch, ErrorsAreSummedInTheStatedOrder) {
  std::mt19937 random(41);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  for (const uint32_t cols : {1u, 7u, 8u, 9u, 32u, 100u, 129u, 260u}) {
    std::vector<float> weights(cols);
    for (float& w : weights) w = normal(random);
    for (const MatrixFormat& f : kMatrixFormats) {
      if (!is_integer(f.number_format) || is_trained_bits(f.number_format)) continue;
      const uint16_t group_size = f.group_size;
      const MatrixShape shape = {1, cols, f.number_format, group_size};
      // Exactly as large as said, so that a sanitizer sees a weight too many.
      std::vector<int8_t> codes(padded_cols(shape));
      ErrorSums lanes = {0.25, 0.5, 0};
      ErrorSums plain = lanes;
      std::vector<int> values(cols);
      const auto look_up = [&] {
        for (size_t i = 0; i < cols; ++i) values[i] = value_of_code(f.number_format, codes[i]);
      };
      if (group_size == 0) {
        float scale;
        quantize_row_int8(weights.data(), cols, QuantMethod::kMse, codes.size(), codes.data(),
                          &scale);
        look_up();
        add_error_int8(weights.data(), cols, codes.data(), scale, &lanes);
        add_plain_errors(weights, values, static_cast<double>(scale), &plain);
      } else {
        const Rows rows = rows_in_lanes(shape, weights, QuantMethod::kMse, ScaleSigns::kPositive);
        codes = rows.codes;
        look_up();
        add_error_groups(shape, weights.data(), codes.data(), rows.scales.data(), &lanes);
        for (size_t begin = 0; begin < cols; begin += group_size) {
          const size_t n = std::min<size_t>(group_size, cols - begin);
          add_plain_errors(
              std::span(weights).subspan(begin, n), std::span(values).subspan(begin, n),
              static_cast<double>(bf16_to_f32(rows.scales[begin / group_size])), &plain);
        }
      }
      SCOPED_TRACE(std::string(number_format_name(f.number_format)) + ' ' + std::to_string(cols));
      expect_same(lanes, plain);
    }
  }
}

TEST(GroupSearch, TurnedWordsAreRowsForColumns) {
  for (const size_t rows : {4u, 8u, 16u, 32u}) {
    for (const size_t cols : {4u, 16u, 20u, 128u}) {
      std::vector<uint32_t> from(rows * cols);
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint32_t>(i) * 0x01010107;
      std::vector<uint32_t> to(from.size());
      turn_words(from.data(), rows, cols, to.data());
      for (size_t i = 0; i < from.size(); ++i) {
        EXPECT_EQ(to[i % cols * rows + i / cols], from[i]) << rows << ' ' << cols << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace cria
