#include "runtime/decode/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <vector>

#include "runtime/base/scalar_math.h"
#include "tests/support/sampling_of.h"
#include "tests/support/seeds.h"

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

// Every candidate, sorted whole, as docs/numerics.md has the steps.
uint32_t sampled_plainly(const std::vector<float>& logits, const std::vector<uint32_t>& recent,
                         const cria_sampling& s, Pcg32* random) {
  const auto smallest_if_none = [](float x) { return std::isnan(x) ? -HUGE_VALF : x; };
  std::vector<Candidate> all;
  for (uint32_t i = 0; i < logits.size(); ++i) all.push_back({smallest_if_none(logits[i]), i});
  for (size_t i = 0; i < s.n_biases; ++i) {
    float& logit = all[s.biases[i].token].logit;
    logit = smallest_if_none(logit + s.biases[i].bias);
  }
  for (const uint32_t token : std::set<uint32_t>(recent.begin(), recent.end())) {
    const float penalty = s.repeat_penalty == 0.0f ? 1.0f : s.repeat_penalty;
    const auto n = static_cast<float>(std::count(recent.begin(), recent.end(), token));
    float& logit = all[token].logit;
    logit = logit > 0.0f ? logit / penalty : logit * penalty;
    logit -= n * s.frequency_penalty + s.presence_penalty;
  }
  const auto sort = [&all] {
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
    });
  };
  const auto sum = [&all] {
    return std::accumulate(all.begin(), all.end(), 0.0,
                           [](double x, const Candidate& c) { return x + double{c.logit}; });
  };
  std::vector<Candidate> in_order = all;
  sort();
  const Candidate best = all[0];
  if (s.temperature == 0.0f || s.top_k == 1 || !std::isfinite(best.logit)) return best.token;
  if (s.top_k != 0 && s.top_k < all.size()) {
    all.resize(s.top_k);
  } else {
    all = in_order;
  }
  for (Candidate& c : all) c.logit = exp_f32((c.logit - best.logit) / s.temperature);
  if (s.top_p > 0.0f && s.top_p < 1.0f) {
    const double wanted = double{s.top_p} * sum();
    sort();
    double reached = 0;
    size_t n = 0;
    while (n < all.size() && reached < wanted) reached += double{all[n++].logit};
    all.resize(std::max<size_t>(n, 1));
  }
  if (s.min_p > 0.0f) {
    sort();
    std::erase_if(all, [&s](const Candidate& c) { return c.logit < s.min_p; });
  }
  const double target = double{random->next_unit()} * sum();
  double reached = 0;
  for (const Candidate& c : all) {
    reached += double{c.logit};
    if (target < reached) return c.token;
  }
  return all[0].token;
}

// Where few can be the result, the others are never made candidates: that must not show.
void compare_draws(uint32_t seed) {
  Pcg32 dice = Pcg32::seeded(seed);
  const auto below = [&dice](uint32_t n) { return dice.next() % n; };
  for (int trial = 0; trial < 1500; ++trial) {
    const size_t vocab_size = 1 + below(trial % 10 == 0 ? 20000 : 3000);
    // Few different logits make many that are equal.
    const auto n_levels = static_cast<float>(below(2) == 0 ? 1 + below(40) : 1 << 20);
    std::vector<float> logits(vocab_size);
    for (float& logit : logits)
      logit = std::floor(dice.next_unit() * n_levels) * (12 / n_levels) - 6;
    const uint32_t n_odd = below(3) == 0 ? below(static_cast<uint32_t>(2 * vocab_size)) : 0;
    const float odd[] = {std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF, -HUGE_VALF,
                         -HUGE_VALF};
    for (uint32_t i = 0; i < n_odd; ++i)
      logits[below(static_cast<uint32_t>(vocab_size))] = odd[below(4)];
    const auto token = [&] { return below(static_cast<uint32_t>(vocab_size)); };
    std::vector<uint32_t> recent(below(65));
    for (uint32_t& r : recent) r = below(4) == 0 && !recent.empty() ? recent[0] : token();
    std::vector<cria_logit_bias> biases(below(2) * below(trial % 7 == 0 ? 400 : 20));
    const float amounts[] = {-HUGE_VALF, 5, -5, 0.25f, HUGE_VALF};
    for (cria_logit_bias& bias : biases) bias = {token(), amounts[below(trial % 5 == 0 ? 5 : 4)]};
    const uint32_t top_ks[] = {0,
                               1,
                               2,
                               40,
                               below(300),
                               static_cast<uint32_t>(vocab_size),
                               std::numeric_limits<uint32_t>::max() - below(16)};
    cria_sampling sampling = test::sampling_of(below(4) == 0 ? 0.0f : 0.5f + dice.next_unit(),
                                               below(2) == 0 ? 0.0f : dice.next_unit(),
                                               below(2) == 0 ? 0.0f : 0.3f * dice.next_unit(),
                                               below(2) == 0 ? 0.0f : 1.3f, top_ks[below(7)]);
    if (below(3) == 0) sampling.frequency_penalty = 2 * dice.next_unit() - 1;
    if (below(3) == 0) sampling.presence_penalty = 2 * dice.next_unit() - 1;
    sampling.biases = biases.data();
    sampling.n_biases = biases.size();
    std::vector<Candidate> work(vocab_size);
    Pcg32 random = Pcg32::seeded(uint64_t{seed} << 32 | static_cast<uint32_t>(trial));
    Pcg32 same = random;
    for (int draw = 0; draw < 3; ++draw) {
      ASSERT_EQ(sample(logits, recent, sampling, &random, work),
                sampled_plainly(logits, recent, sampling, &same))
          << "trial " << trial << ", vocabulary " << vocab_size << ", top-k " << sampling.top_k;
    }
  }
}

TEST(Sampler, DrawsWhatSortingEveryCandidateDraws) { test::for_each_seed({5}, compare_draws); }

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
