#include "runtime/decode/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace cria {
namespace {

class Sampler {
 public:
  explicit Sampler(std::vector<float> logits) : logits_(std::move(logits)), work_(logits_.size()) {}

  uint32_t draw(const cria_sampling& sampling) {
    return sample(logits_, recent_, sampling, &random_, work_);
  }
  std::vector<double> frequencies(const cria_sampling& sampling, int n_draws) {
    std::vector<double> counts(logits_.size());
    for (int i = 0; i < n_draws; ++i) counts[draw(sampling)] += 1.0 / n_draws;
    return counts;
  }
  void recent(std::vector<uint32_t> tokens) { recent_ = std::move(tokens); }
  void seed(uint64_t seed) { random_ = Pcg32::seeded(seed); }

 private:
  std::vector<float> logits_;
  std::vector<uint32_t> recent_;
  std::vector<Candidate> work_;
  Pcg32 random_ = Pcg32::seeded(1);
};

constexpr int kDraws = 40000;
// Five standard deviations of a frequency at most: 5 * sqrt(0.25 / n).
constexpr double kFrequencyTolerance = 0.0125;

cria_sampling plain(float temperature) { return {temperature, 0, 0, 0, 0, 0}; }

TEST(Sampler, GreedyTakesTheLowestIdAmongTheLargest) {
  Sampler sampler({1, 5, 5, 2});
  EXPECT_EQ(sampler.draw(plain(0)), 1u);
}

TEST(Sampler, GreedyIgnoresValuesThatAreNotNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Sampler some({nan, 1, nan, 3});
  EXPECT_EQ(some.draw(plain(0)), 3u);
  Sampler all({nan, nan});
  EXPECT_EQ(all.draw(plain(0)), 0u);
  EXPECT_EQ(all.draw(plain(1)), 0u);
}

TEST(Sampler, TemperatureDrawsFromTheSoftmax) {
  Sampler sampler({0, std::log(2.0f), std::log(5.0f)});
  const std::vector<double> one = sampler.frequencies(plain(1), kDraws);
  EXPECT_NEAR(one[0], 1.0 / 8, kFrequencyTolerance);
  EXPECT_NEAR(one[1], 2.0 / 8, kFrequencyTolerance);
  EXPECT_NEAR(one[2], 5.0 / 8, kFrequencyTolerance);
  // At temperature 1/2 the weights are squared.
  const std::vector<double> half = sampler.frequencies(plain(0.5f), kDraws);
  EXPECT_NEAR(half[0], 1.0 / 30, kFrequencyTolerance);
  EXPECT_NEAR(half[2], 25.0 / 30, kFrequencyTolerance);
}

TEST(Sampler, TopKKeepsTheLargestAndTheLowerIdOnTies) {
  Sampler sampler({1, 2, 2, 2, 0});
  const std::vector<double> f = sampler.frequencies({1, 0, 0, 0, 2, 0}, kDraws);
  EXPECT_NEAR(f[1], 0.5, kFrequencyTolerance);
  EXPECT_NEAR(f[2], 0.5, kFrequencyTolerance);
  EXPECT_EQ(f[0] + f[3] + f[4], 0);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 0.5, 0.3, 0.15, 0.05.
  Sampler sampler({std::log(0.15f), std::log(0.5f), std::log(0.05f), std::log(0.3f)});
  const std::vector<double> two = sampler.frequencies({1, 0.75f, 0, 0, 0, 0}, kDraws);
  EXPECT_NEAR(two[1], 0.625, kFrequencyTolerance);
  EXPECT_NEAR(two[3], 0.375, kFrequencyTolerance);
  EXPECT_EQ(two[0] + two[2], 0);
  const std::vector<double> three = sampler.frequencies({1, 0.9f, 0, 0, 0, 0}, kDraws);
  EXPECT_NEAR(three[0], 0.15 / 0.95, kFrequencyTolerance);
  EXPECT_EQ(three[2], 0);
}

TEST(Sampler, TopPOfALargeVocabularySortsAsFarAsNeeded) {
  // Nearly flat: the nucleus is thousands of tokens, more than are sorted at first.
  std::vector<float> logits(20000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 1000) * 1e-4f;
  Sampler sampler(logits);
  double lowest = 1;
  for (int i = 0; i < 300; ++i) {
    lowest = std::min(lowest, static_cast<double>(logits[sampler.draw({1, 0.5f, 0, 0, 0, 0})]));
  }
  // Half the mass is in residues 487 and up (the weights differ by at most 10 %).
  EXPECT_GE(lowest, 0.0480);
  EXPECT_LT(lowest, 0.0600);
}

TEST(Sampler, MinPDropsWhatIsFarBelowTheBest) {
  Sampler sampler({std::log(0.5f), std::log(0.3f), std::log(0.04f), std::log(0.16f)});
  const std::vector<double> f = sampler.frequencies({1, 0, 0.2f, 0, 0, 0}, kDraws);
  EXPECT_EQ(f[2], 0);
  EXPECT_NEAR(f[0], 0.5 / 0.96, kFrequencyTolerance);
}

TEST(Sampler, RepeatPenaltyLowersRecentTokensOnce) {
  Sampler sampler({4, 3, -1});
  sampler.recent({0, 0, 0});
  // 4 / 1.25 = 3.2 stays above 3: once, not three times.
  EXPECT_EQ(sampler.draw({0, 0, 0, 1.25f, 0, 0}), 0u);
  EXPECT_EQ(sampler.draw({0, 0, 0, 1.5f, 0, 0}), 1u);
  Sampler negative({-2, -1, -3});
  negative.recent({1});
  EXPECT_EQ(negative.draw({0, 0, 0, 2.5f, 0, 0}), 0u);
}

TEST(Sampler, TheSameSeedDrawsTheSameTokens) {
  std::vector<float> logits(500);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i));
  Sampler a(logits), b(logits);
  a.seed(99);
  b.seed(99);
  const cria_sampling sampling = {0.9f, 0.95f, 0.02f, 1.1f, 100, 0};
  for (int i = 0; i < 200; ++i) ASSERT_EQ(a.draw(sampling), b.draw(sampling));
}

TEST(Sampler, RefusesSettingsOutOfRange) {
  EXPECT_TRUE(is_valid_sampling({0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(is_valid_sampling({0.8f, 1, 1, 1.3f, 40, 0}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(is_valid_sampling({-0.1f, 0, 0, 0, 0, 0}));
  EXPECT_FALSE(is_valid_sampling({nan, 0, 0, 0, 0, 0}));
  EXPECT_FALSE(is_valid_sampling({1, 1.1f, 0, 0, 0, 0}));
  EXPECT_FALSE(is_valid_sampling({1, 0, -1, 0, 0, 0}));
  EXPECT_FALSE(is_valid_sampling({1, 0, 0, HUGE_VALF, 0, 0}));
  EXPECT_FALSE(is_valid_sampling({1, 0, 0, 0, 0, 1}));
}

}  // namespace
}  // namespace cria
