#include "platforms/hosted/eval/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace cria::hosted {
namespace {

// Doubles throughout: a few roundings of 2^-53 on sums of 3 terms.
constexpr double kTolerance = 1e-14;

TEST(Distribution, ProbabilitiesAreThoseOfSoftmax) {
  const std::vector<float> logits = {std::log(1.0f), 0.0f, 0.0f, 0.0f};
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(log_probability(logits, i), std::log(0.25), kTolerance);
  }
}

TEST(Distribution, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3.0e38f, -3.0e38f};
  EXPECT_NEAR(log_probability(logits, 0), 0.0, kTolerance);
  EXPECT_TRUE(std::isfinite(log_probability(logits, 1)));
}

TEST(Distribution, DivergenceOfADistributionFromItselfIsZero) {
  const std::vector<float> logits = {1.0f, -2.0f, 0.5f};
  EXPECT_NEAR(kl_divergence(logits, logits), 0.0, kTolerance);
}

TEST(Distribution, ShiftingAllLogitsChangesNothing) {
  const std::vector<float> a = {1.0f, 2.0f, 4.0f};
  const std::vector<float> b = {9.0f, 10.0f, 12.0f};
  EXPECT_NEAR(kl_divergence(a, b), 0.0, kTolerance);
}

TEST(Distribution, DivergenceIsTheSumByHand) {
  // p = (1/2, 1/2), q = (1/3, 2/3) from logits 0, 0 and 0, 1 in base two.
  const std::vector<float> p = {0.0f, 0.0f};
  const std::vector<float> q = {0.0f, std::log(2.0f)};
  const double by_hand = 0.5 * std::log(0.5 * 3.0) + 0.5 * std::log(0.5 * 1.5);
  constexpr double kFloatLog2Error = 1e-7;  // log(2) is rounded to float
  EXPECT_NEAR(kl_divergence(p, q), by_hand, kFloatLog2Error);
}

TEST(Distribution, LikeliestIsTheLowestOfEquals) {
  EXPECT_EQ(likeliest(std::vector<float>{0.0f, 3.0f, 3.0f}), 1u);
}

}  // namespace
}  // namespace cria::hosted
