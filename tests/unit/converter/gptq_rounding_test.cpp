// The factor and the rounding of GPTQ, against definitions and against every code there is.
#include "converter/calibration/gptq_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "converter/calibration/panel_product.h"
#include "converter/calibration/symmetric_factor.h"
#include "converter/calibration/target_shift.h"
#include "quant/numbers/float16.h"
#include "quant/numbers/quantize.h"
#include "tests/support/max_or_nan.h"
#include "tests/support/random_values.h"

namespace cria::converter {
namespace {

using test::random_values;

MatrixShape shape_of(size_t rows, size_t cols, uint16_t group_size = 32,
                     format::NumberFormat number_format = format::NumberFormat::kInt4) {
  return {static_cast<uint32_t>(rows), static_cast<uint32_t>(cols), number_format, group_size};
}

constexpr RoundingSteps kFeedback = {true, 0};
constexpr RoundingSteps kNearest = {false, 0};
constexpr RoundingSteps kAll = {true, 3};

// Inputs whose columns go together: each is a mixture of a few.
std::vector<float> correlated_inputs(size_t n, size_t cols, uint32_t seed) {
  constexpr size_t kSources = 6;
  const std::vector<float> mixture = random_values(kSources * cols, seed);
  const std::vector<float> sources = random_values(n * kSources, seed + 1);
  std::vector<float> x = random_values(n * cols, seed + 2);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < cols; ++j) {
      x[i * cols + j] *= 0.3f;
      for (size_t s = 0; s < kSources; ++s) {
        x[i * cols + j] += sources[i * kSources + s] * mixture[s * cols + j];
      }
    }
  }
  return x;
}

std::vector<float> sums_of(const std::vector<float>& x, size_t n, size_t cols) {
  hosted::ThreadPool pool(1, hosted::FewerThreads::kAreTaken);
  std::vector<float> sums(cols * cols);
  add_products(&pool, x.data(), cols, x.data(), cols, n, sums.data());
  return sums;
}

// (w - v) * H * (w - v)^T.
double error_of(const PanelMatrix& h, const float* w, const float* v) {
  double sum = 0;
  for (size_t i = 0; i < h.rows(); ++i) {
    for (size_t j = 0; j < h.rows(); ++j) {
      sum += static_cast<double>(w[i] - v[i]) * static_cast<double>(h.at(i, j)) *
             static_cast<double>(w[j] - v[j]);
    }
  }
  return sum;
}

class GptqRounding : public ::testing::Test {
 protected:
  hosted::ThreadPool pool_{1, hosted::FewerThreads::kAreTaken};
};

TEST_F(GptqRounding, TheFactorsSquareIsTheInverse) {
  for (const size_t n : {1, 15, 64, 65, 200}) {
    const std::vector<float> x = correlated_inputs(2 * n, n, 1);
    const RoundingBasis basis = make_basis(&pool_, sums_of(x, 2 * n, n), n, 0.05f);
    const auto at = [n](size_t i, size_t j) { return i * n + j; };
    std::vector<double> inverse(n * n);  // U^T * U
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < n; ++k) {
        for (size_t m = 0; m <= std::min(i, k); ++m) {
          inverse[at(i, k)] += static_cast<double>(basis.turned_factor.at(i, m)) *
                               static_cast<double>(basis.turned_factor.at(k, m));
        }
      }
    }
    double worst = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        // Row i of the inverse times column j of H in the basis' order.
        double product = 0;
        for (size_t k = 0; k < n; ++k) {
          product += inverse[at(i, k)] *
                     static_cast<double>(basis.hessian.at(basis.order[k], basis.order[j]));
        }
        worst = test::max_or_nan(worst, std::fabs(product - (i == j ? 1 : 0)));
      }
      for (size_t j = 0; j < i; ++j) EXPECT_EQ(basis.turned_factor.at(j, i), 0.0f);
    }
    // f32 with a condition of at most some thousands.
    EXPECT_LT(worst, 2e-3) << n;
  }
}

TEST_F(GptqRounding, AFactorThatIsNoneIsSaid) {
  PanelMatrix u;
  EXPECT_FALSE(inverse_factor(&pool_, {1, 2, 2, 1}, 2, &u));
}

TEST_F(GptqRounding, ColumnsComeByTheirInputsSize) {
  const std::vector<float> sums = {1, 0, 0, 0, 3, 0, 0, 0, 2};
  EXPECT_EQ(make_basis(&pool_, sums, 3, 0.1f).order, (std::vector<uint32_t>{1, 2, 0}));
}

TEST_F(GptqRounding, WithoutCorrelationCodesAreTheNearest) {
  constexpr size_t kCols = 64;
  std::vector<float> sums(kCols * kCols);
  for (size_t i = 0; i < kCols; ++i) sums[i * kCols + i] = 1;
  const RoundingBasis basis = make_basis(&pool_, sums, kCols, 0.0f);
  const std::vector<float> w = random_values(30 * kCols, 2);
  const RoundedRows feedback = round_rows(&pool_, basis, shape_of(30, kCols, 32),
                                          ScaleSigns::kPositive, w.data(), kFeedback);
  const RoundedRows nearest =
      round_rows(&pool_, basis, shape_of(30, kCols, 32), ScaleSigns::kPositive, w.data(), kNearest);
  EXPECT_EQ(feedback.codes, nearest.codes);
  EXPECT_EQ(feedback.scales, nearest.scales);
}

// The codes that are best of all for given scales: every combination of the two codes next to each
// weight's neighbourhood, of a few columns.
double best_error(const RoundingBasis& basis, const float* w, float scale, size_t cols) {
  double best = std::numeric_limits<double>::infinity();
  size_t n = 1;
  for (size_t i = 0; i < cols; ++i) n *= 4;
  std::vector<float> v(cols);
  for (size_t choice = 0; choice < n; ++choice) {
    size_t rest = choice;
    for (size_t i = 0; i < cols; ++i, rest /= 4) {
      const float code = std::floor(w[i] / scale) - 1 + static_cast<float>(rest % 4);
      v[i] = std::clamp(code, -8.0f, 7.0f) * scale;
    }
    best = std::min(best, error_of(basis.hessian, w, v.data()));
  }
  return best;
}

TEST_F(GptqRounding, ComesNearTheBestOfAllCodes) {
  constexpr size_t kCols = 7;
  constexpr size_t kRows = 40;
  const std::vector<float> x = correlated_inputs(100, kCols, 3);
  const RoundingBasis basis = make_basis(&pool_, sums_of(x, 100, kCols), kCols, 0.05f);
  const std::vector<float> w = random_values(kRows * kCols, 4);
  double by_steps[3] = {};
  double best = 0;
  const RoundingSteps steps[] = {kNearest, kFeedback, {true, 4}};
  for (size_t s = 0; s < 3; ++s) {
    const RoundedRows rounded = round_rows(&pool_, basis, shape_of(kRows, kCols, 32),
                                           ScaleSigns::kPositive, w.data(), steps[s]);
    std::vector<float> v(w.size());
    expand_rows(shape_of(kRows, kCols, 32), rounded, v.data());
    for (size_t r = 0; r < kRows; ++r) {
      by_steps[s] += error_of(basis.hessian, w.data() + r * kCols, v.data() + r * kCols);
      if (s == 0) {
        best += best_error(basis, w.data() + r * kCols, bf16_to_f32(rounded.scales[r]), kCols);
      }
    }
  }
  std::printf("nearest %.4g, feedback %.4g, improved %.4g, best with the first scales %.4g\n",
              by_steps[0], by_steps[1], by_steps[2], best);
  EXPECT_LT(by_steps[1], 0.8 * by_steps[0]);
  EXPECT_LE(by_steps[2], by_steps[1]);
  EXPECT_LT(by_steps[2], 2 * best);
}

TEST_F(GptqRounding, BeatsMseOnInputsThatGoTogether) {
  constexpr size_t kCols = 172;  // not a multiple of the group
  constexpr size_t kRows = 33;
  constexpr size_t kPadded = 192;
  const std::vector<float> x = correlated_inputs(600, kCols, 5);
  const RoundingBasis basis = make_basis(&pool_, sums_of(x, 600, kCols), kCols, 0.05f);
  const std::vector<float> w = random_values(kRows * kCols, 6);
  RoundedRows mse = {std::vector<int8_t>(kRows * kPadded), std::vector<uint16_t>(kRows * 6), {}};
  const MatrixShape shape = {kRows, kCols, format::NumberFormat::kInt4, 32};
  quantize_groups(shape, w.data(), kRows, QuantMethod::kMse, ScaleSigns::kPositive,
                  mse.codes.data(), mse.scales.data());
  const RoundedRows gptq =
      round_rows(&pool_, basis, shape_of(kRows, kCols, 32), ScaleSigns::kPositive, w.data(), kAll);
  double errors[2] = {};
  const RoundedRows* both[] = {&mse, &gptq};
  for (size_t i = 0; i < 2; ++i) {
    std::vector<float> v(w.size());
    expand_rows(shape_of(kRows, kCols, 32), *both[i], v.data());
    for (size_t r = 0; r < kRows; ++r) {
      errors[i] += error_of(basis.hessian, w.data() + r * kCols, v.data() + r * kCols);
    }
  }
  EXPECT_LT(errors[1], 0.5 * errors[0]);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t i = kCols; i < kPadded; ++i) EXPECT_EQ(gptq.codes[r * kPadded + i], 0);
  }
}

TEST_F(GptqRounding, ThreadsAndCompanyChangeNothing) {
  constexpr size_t kCols = 96;
  const std::vector<float> x = correlated_inputs(200, kCols, 7);
  const std::vector<float> w = random_values(50 * kCols, 8);
  hosted::ThreadPool three(3, hosted::FewerThreads::kAreTaken);
  const RoundingBasis one = make_basis(&pool_, sums_of(x, 200, kCols), kCols, 0.05f);
  const RoundingBasis other = make_basis(&three, sums_of(x, 200, kCols), kCols, 0.05f);
  const RoundedRows all =
      round_rows(&pool_, one, shape_of(50, kCols, 64), ScaleSigns::kPositive, w.data(), kAll);
  const RoundedRows shared =
      round_rows(&three, other, shape_of(50, kCols, 64), ScaleSigns::kPositive, w.data(), kAll);
  EXPECT_EQ(all.codes, shared.codes);
  EXPECT_EQ(all.scales, shared.scales);
  const RoundedRows alone = round_rows(&pool_, one, shape_of(1, kCols, 64), ScaleSigns::kPositive,
                                       w.data() + 20 * kCols, kAll);
  EXPECT_TRUE(std::equal(alone.codes.begin(), alone.codes.end(), all.codes.begin() + 20 * 128));
}

TEST_F(GptqRounding, ZerosStayZerosAndInputsMayBeNone) {
  constexpr size_t kCols = 32;
  const std::vector<float> sums(kCols * kCols);  // no input ever
  const RoundingBasis basis = make_basis(&pool_, sums, kCols, 0.05f);
  std::vector<float> w(2 * kCols);
  for (size_t i = 0; i < kCols; ++i) w[kCols + i] = static_cast<float>(i) - 16;
  const RoundedRows rounded =
      round_rows(&pool_, basis, shape_of(2, kCols, 32), ScaleSigns::kPositive, w.data(), kAll);
  EXPECT_EQ(rounded.scales[0], 0);
  EXPECT_TRUE(std::all_of(rounded.codes.begin(), rounded.codes.begin() + kCols,
                          [](int8_t code) { return code == 0; }));
  std::vector<float> v(w.size());
  expand_rows(shape_of(2, kCols, 32), rounded, v.data());
  for (size_t i = 0; i < kCols; ++i) EXPECT_NEAR(v[kCols + i], w[kCols + i], 1.5f);
}

TEST_F(GptqRounding, ShiftedTargetsGiveTheExactModelsOutputs) {
  // Rounded inputs are the exact ones but scaled: the shift scales the weights back.
  constexpr size_t kCols = 20;
  constexpr size_t kInputs = 200;
  const std::vector<float> exact = random_values(kInputs * kCols, 9);
  std::vector<float> rounded = exact;
  std::vector<float> difference(exact.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    rounded[i] *= 0.9f;
    difference[i] = exact[i] - rounded[i];
  }
  const RoundingBasis basis = make_basis(&pool_, sums_of(rounded, kInputs, kCols), kCols, 1e-4f);
  std::vector<float> cross(kCols * kCols);
  add_products(&pool_, difference.data(), kCols, rounded.data(), kCols, kInputs, cross.data());
  const std::vector<float> w = random_values(3 * kCols, 10);
  std::vector<float> sums(w.size());  // W * cross
  for (size_t r = 0; r < 3; ++r) {
    for (size_t i = 0; i < kCols; ++i) {
      for (size_t j = 0; j < kCols; ++j) {
        sums[r * kCols + j] += w[r * kCols + i] * cross[i * kCols + j];
      }
    }
  }
  const std::vector<float> targets = TargetShift(&pool_, basis).targets(w, sums);
  for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(targets[i], w[i] / 0.9f, 2e-3f);
}

TEST_F(GptqRounding, ShiftedTargetsPutOutWhatIsMissing) {
  // What the outputs lack is what other weights would put out: those are found.
  constexpr size_t kCols = 20;
  constexpr size_t kInputs = 200;
  constexpr size_t kRows = 3;
  const std::vector<float> x = random_values(kInputs * kCols, 11);
  const std::vector<float> w = random_values(kRows * kCols, 12);
  const std::vector<float> lacking = random_values(kRows * kCols, 13);
  std::vector<float> missing(kInputs * kRows);
  for (size_t t = 0; t < kInputs; ++t) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t i = 0; i < kCols; ++i) {
        missing[t * kRows + r] += lacking[r * kCols + i] * x[t * kCols + i];
      }
    }
  }
  const RoundingBasis basis = make_basis(&pool_, sums_of(x, kInputs, kCols), kCols, 1e-4f);
  std::vector<float> wanted(kRows * kCols);
  add_products(&pool_, missing.data(), kRows, x.data(), kCols, kInputs, wanted.data());
  const std::vector<float> targets = TargetShift(&pool_, basis).targets(w, wanted);
  for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(targets[i], w[i] + lacking[i], 2e-3f);
}

// Both formats of sixteen values, both kinds of scales, sizes that fill no block or tile.
TEST_F(GptqRounding, SweepsNeverMakeItWorse) {
  constexpr size_t kRows = 70;
  for (const size_t cols : {33, 64, 172, 200}) {
    const std::vector<float> x = correlated_inputs(3 * cols, cols, 14);
    const std::vector<float> w = random_values(kRows * cols, 15);
    const RoundingBasis basis = make_basis(&pool_, sums_of(x, 3 * cols, cols), cols, 0.05f);
    for (const auto number_format : {format::NumberFormat::kInt4, format::NumberFormat::kInt4Nl}) {
      for (const uint16_t group_size : {uint16_t{32}, uint16_t{64}, uint16_t{128}}) {
        const MatrixShape shape = shape_of(kRows, cols, group_size, number_format);
        double by_signs[2] = {};
        for (const ScaleSigns signs : {ScaleSigns::kPositive, ScaleSigns::kBoth}) {
          double last = std::numeric_limits<double>::infinity();
          for (const RoundingSteps steps : {kNearest, kFeedback, kAll}) {
            const RoundedRows rounded = round_rows(&pool_, basis, shape, signs, w.data(), steps);
            std::vector<float> v(w.size());
            expand_rows(shape, rounded, v.data());
            double error = 0;
            for (size_t r = 0; r < kRows; ++r) {
              error += error_of(basis.hessian, w.data() + r * cols, v.data() + r * cols);
            }
            EXPECT_LT(error, last) << cols << " " << group_size;
            last = error;
            const bool has_negative =
                std::any_of(rounded.scales.begin(), rounded.scales.end(),
                            [](uint16_t scale) { return (scale & 0x8000) != 0; });
            EXPECT_EQ(has_negative, signs == ScaleSigns::kBoth);
          }
          by_signs[signs == ScaleSigns::kBoth ? 1 : 0] = last;
        }
        EXPECT_LT(by_signs[1], by_signs[0]);
      }
    }
  }
}

}  // namespace
}  // namespace cria::converter
