#include "runtime/decode/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "tests/support/sampling_of.h"

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

cria_sampling plain(float temperature) { return test::sampling_of(temperature, 0, 0, 0, 0); }

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
  const std::vector<double> f = sampler.frequencies(test::sampling_of(1, 0, 0, 0, 2), kDraws);
  EXPECT_NEAR(f[1], 0.5, kFrequencyTolerance);
  EXPECT_NEAR(f[2], 0.5, kFrequencyTolerance);
  EXPECT_EQ(f[0] + f[3] + f[4], 0);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 0.5, 0.3, 0.15, 0.05.
  Sampler sampler({std::log(0.15f), std::log(0.5f), std::log(0.05f), std::log(0.3f)});
  const std::vector<double> two = sampler.frequencies(test::sampling_of(1, 0.75f, 0, 0, 0), kDraws);
  EXPECT_NEAR(two[1], 0.625, kFrequencyTolerance);
  EXPECT_NEAR(two[3], 0.375, kFrequencyTolerance);
  EXPECT_EQ(two[0] + two[2], 0);
  const std::vector<double> three =
      sampler.frequencies(test::sampling_of(1, 0.9f, 0, 0, 0), kDraws);
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
    lowest = std::min(
        lowest, static_cast<double>(logits[sampler.draw(test::sampling_of(1, 0.5f, 0, 0, 0))]));
  }
  // Half the mass is in residues 487 and up (the weights differ by at most 10 %).
  EXPECT_GE(lowest, 0.0480);
  EXPECT_LT(lowest, 0.0600);
}

TEST(Sampler, MinPDropsWhatIsFarBelowTheBest) {
  Sampler sampler({std::log(0.5f), std::log(0.3f), std::log(0.04f), std::log(0.16f)});
  const std::vector<double> f = sampler.frequencies(test::sampling_of(1, 0, 0.2f, 0, 0), kDraws);
  EXPECT_EQ(f[2], 0);
  EXPECT_NEAR(f[0], 0.5 / 0.96, kFrequencyTolerance);
}

TEST(Sampler, RepeatPenaltyLowersRecentTokensOnce) {
  Sampler sampler({4, 3, -1});
  sampler.recent({0, 0, 0});
  // 4 / 1.25 = 3.2 stays above 3: once, not three times.
  EXPECT_EQ(sampler.draw(test::sampling_of(0, 0, 0, 1.25f, 0)), 0u);
  EXPECT_EQ(sampler.draw(test::sampling_of(0, 0, 0, 1.5f, 0)), 1u);
  Sampler negative({-2, -1, -3});
  negative.recent({1});
  EXPECT_EQ(negative.draw(test::sampling_of(0, 0, 0, 2.5f, 0)), 0u);
}

TEST(Sampler, TheSameSeedDrawsTheSameTokens) {
  std::vector<float> logits(500);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i));
  Sampler a(logits), b(logits);
  a.seed(99);
  b.seed(99);
  const cria_sampling sampling = test::sampling_of(0.9f, 0.95f, 0.02f, 1.1f, 100);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(a.draw(sampling), b.draw(sampling));
}

// What sampling_of leaves at zero.
cria_sampling greedy_with(float repeat, float frequency, float presence) {
  cria_sampling sampling = {};
  sampling.repeat_penalty = repeat;
  sampling.frequency_penalty = frequency;
  sampling.presence_penalty = presence;
  return sampling;
}

TEST(Sampler, FrequencyPenaltyCountsAndPresencePenaltyDoesNot) {
  Sampler sampler({5, 4, 3});
  sampler.recent({0, 1, 0, 0});
  // 5 - 3 * 0.5 = 3.5 and 4 - 0.5 = 3.5: the lower id of two equals.
  EXPECT_EQ(sampler.draw(greedy_with(0, 0.5f, 0)), 0u);
  EXPECT_EQ(sampler.draw(greedy_with(0, 0.625f, 0)), 1u);
  EXPECT_EQ(sampler.draw(greedy_with(0, 1.25f, 0)), 2u);
  // Once for each token that is there.
  EXPECT_EQ(sampler.draw(greedy_with(0, 0, 1.5f)), 0u);
  EXPECT_EQ(sampler.draw(greedy_with(0, 0, 2.5f)), 2u);
  // Negative ones favour what was said.
  Sampler shy({1, 2, 3});
  shy.recent({0, 0});
  EXPECT_EQ(shy.draw(greedy_with(0, -1.5f, 0)), 0u);
  EXPECT_EQ(shy.draw(greedy_with(0, 0, -2.5f)), 0u);
  // The repeat penalty comes first: 5 / 2 - 1 < 3 / 2, whose token is there too.
  Sampler all({5, 3});
  all.recent({0, 1});
  EXPECT_EQ(all.draw(greedy_with(2, 0, 0)), 0u);
  Sampler some({5, 2});
  some.recent({0});
  EXPECT_EQ(some.draw(greedy_with(2, 0, 1)), 1u);
}

TEST(Sampler, BiasesComeBeforeEverythingElseAndAddUp) {
  Sampler sampler({1, 2, 3});
  const cria_logit_bias up[] = {{0, 1.5f}, {0, 1.5f}};
  const cria_logit_bias never[] = {{2, -HUGE_VALF}, {1, -1.5f}};
  const auto draw = [&](std::span<const cria_logit_bias> biases, cria_sampling sampling) {
    sampling.biases = biases.data();
    sampling.n_biases = biases.size();
    return sampler.draw(sampling);
  };
  EXPECT_EQ(draw({}, {}), 2u);
  EXPECT_EQ(draw({up, 1}, {}), 2u);
  EXPECT_EQ(draw(up, {}), 0u);
  EXPECT_EQ(draw(never, {}), 0u);
  // What was forbidden is never drawn, at any temperature.
  for (int i = 0; i < 1000; ++i) ASSERT_NE(draw(never, plain(100)), 2u);
  // Penalties see the logit with its bias: 1 + 3 = 4 is positive, and 4 / 1.25 is still above 3.
  sampler.recent({0});
  EXPECT_EQ(draw(up, greedy_with(1.25f, 0, 0)), 0u);
  EXPECT_EQ(draw(up, greedy_with(1.5f, 0, 0)), 2u);
  // -5 + 3 is negative: it is multiplied, and so is below -3.
  Sampler low({-5, -3});
  low.recent({0});
  cria_sampling sampling = greedy_with(2, 0, 0);
  sampling.biases = up;
  sampling.n_biases = std::size(up);
  EXPECT_EQ(low.draw(sampling), 1u);
  // Two that make no number count as the smallest.
  const cria_logit_bias both[] = {{2, -HUGE_VALF}, {2, HUGE_VALF}};
  EXPECT_EQ(draw(both, {}), 1u);
}

TEST(Sampler, TopPComesBeforeMinP) {
  // Probabilities 0.4, 0.3, 0.2, 0.1. Of the two that reach 0.6, both have 0.45 of the likeliest's.
  Sampler sampler({std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)});
  const std::vector<double> f =
      sampler.frequencies(test::sampling_of(1, 0.6f, 0.45f, 0, 0), kDraws);
  EXPECT_NEAR(f[0], 4.0 / 7, kFrequencyTolerance);
  EXPECT_NEAR(f[1], 3.0 / 7, kFrequencyTolerance);
  EXPECT_EQ(f[2] + f[3], 0);
  // Min-p first would leave 0.4, 0.3, 0.2, of which two have 0.75 of the sum; top-p first takes
  // three, and min-p leaves them.
  const std::vector<double> three =
      sampler.frequencies(test::sampling_of(1, 0.75f, 0.45f, 0, 0), kDraws);
  EXPECT_NEAR(three[2], 2.0 / 9, kFrequencyTolerance);
  EXPECT_EQ(three[3], 0);
}

TEST(Sampler, RefusesSettingsOutOfRange) {
  constexpr uint32_t kVocab = 10;
  const auto is_valid = [](const cria_sampling& s) { return is_valid_sampling(s, kVocab); };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(is_valid({}));
  EXPECT_TRUE(is_valid(test::sampling_of(0.8f, 1, 1, 1.3f, 40)));
  EXPECT_FALSE(is_valid(test::sampling_of(-0.1f, 0, 0, 0, 0)));
  EXPECT_FALSE(is_valid(test::sampling_of(nan, 0, 0, 0, 0)));
  EXPECT_FALSE(is_valid(test::sampling_of(1, 1.1f, 0, 0, 0)));
  EXPECT_FALSE(is_valid(test::sampling_of(1, nan, 0, 0, 0)));
  EXPECT_FALSE(is_valid(test::sampling_of(1, 0, -1, 0, 0)));
  EXPECT_FALSE(is_valid(test::sampling_of(1, 0, nan, 0, 0)));
  EXPECT_FALSE(is_valid(test::sampling_of(1, 0, 0, HUGE_VALF, 0)));
  EXPECT_FALSE(is_valid(test::sampling_of(1, 0, 0, -1, 0)));
  EXPECT_TRUE(is_valid(greedy_with(1, -2, 2)));
  for (const float wrong : {nan, HUGE_VALF, -HUGE_VALF}) {
    EXPECT_FALSE(is_valid(greedy_with(wrong, 0, 0)));
    EXPECT_FALSE(is_valid(greedy_with(0, wrong, 0)));
    EXPECT_FALSE(is_valid(greedy_with(0, 0, wrong)));
  }
  const cria_logit_bias last[] = {{0, HUGE_VALF}, {kVocab - 1, -HUGE_VALF}};
  const cria_logit_bias past_the_end[] = {{0, 0}, {kVocab, 0}};
  const cria_logit_bias no_number[] = {{0, 0}, {0, nan}};
  cria_sampling sampling = {};
  sampling.n_biases = 2;
  EXPECT_FALSE(is_valid(sampling));
  sampling.biases = last;
  EXPECT_TRUE(is_valid(sampling));
  sampling.biases = past_the_end;
  EXPECT_FALSE(is_valid(sampling));
  sampling.biases = no_number;
  EXPECT_FALSE(is_valid(sampling));
  sampling.n_biases = 1;
  EXPECT_TRUE(is_valid(sampling));
}

}  // namespace
}  // namespace cria
