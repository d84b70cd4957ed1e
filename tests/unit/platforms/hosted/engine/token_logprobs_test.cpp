#include "platforms/hosted/engine/token_logprobs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cria::hosted {
namespace {

TEST(TokenLogprobs, AreThoseOfTheSoftmax) {
  const std::vector<float> logits = {1.0f, -2.0f, 0.5f, 3.0f};
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const TokenLogprobs logprobs(logits);
  for (uint32_t i = 0; i < logits.size(); ++i) {
    const double expected = static_cast<double>(logits[i]) - std::log(sum);
    EXPECT_NEAR(static_cast<double>(logprobs.of(i)), expected, 1e-6);
  }
}

TEST(TokenLogprobs, OfEqualsTheLowerIdIsLikelier) {
  const std::vector<float> logits = {1.0f, 4.0f, 0.0f, 4.0f, 1.0f, 4.0f};
  const std::vector<TokenLogprob> top = TokenLogprobs(logits).top(4);
  ASSERT_EQ(top.size(), 4u);
  const uint32_t expected[] = {1, 3, 5, 0};
  for (size_t i = 0; i < top.size(); ++i) EXPECT_EQ(top[i].token, expected[i]);
  EXPECT_EQ(top[0].logprob, top[2].logprob);
  EXPECT_GT(top[2].logprob, top[3].logprob);
}

TEST(TokenLogprobs, NeverMoreThanThereAreTokens) {
  const std::vector<float> logits = {1.0f, 2.0f};
  EXPECT_EQ(TokenLogprobs(logits).top(5).size(), 2u);
  EXPECT_TRUE(TokenLogprobs(logits).top(0).empty());
}

}  // namespace
}  // namespace cria::hosted
