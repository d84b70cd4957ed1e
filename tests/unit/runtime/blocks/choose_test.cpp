// Which experts a router chooses, where values are equal, in groups or no numbers.
#include "runtime/blocks/experts/choose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace cria::experts {
namespace {

namespace flag = format::flag;
using Values = std::vector<float>;
using Experts = std::vector<uint32_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Choice {
  Experts experts;
  Values weights;
};

format::LayerKind router(format::RouterScore score, size_t n_experts, size_t n_chosen) {
  format::LayerKind kind = {};
  kind.router_score = static_cast<uint8_t>(score);
  kind.n_experts = static_cast<uint16_t>(n_experts);
  kind.n_chosen = static_cast<uint16_t>(n_chosen);
  kind.router_scale = 1.0f;
  return kind;
}

Choice chosen(const format::LayerKind& kind, Values values, const Values& bias = {},
              const Values& factors = {}) {
  Kernels kernels;
  EXPECT_TRUE(select_kernels(0, &kernels));
  Values ranked(values.size());
  Choice choice = {Experts(kind.n_chosen), Values(kind.n_chosen)};
  choose(kernels,
         {kind, bias.empty() ? nullptr : bias.data(), factors.empty() ? nullptr : factors.data()},
         values.data(), ranked.data(), choice.experts.data(), choice.weights.data());
  return choice;
}

TEST(Choose, TakesTheBestFirstAndOfEqualsTheLowerIndex) {
  const format::LayerKind kind = router(format::RouterScore::kSoftmax, 5, 3);
  EXPECT_EQ(chosen(kind, {1, 3, 2, 3, 1}).experts, (Experts{1, 3, 2}));
  EXPECT_EQ(chosen(kind, {0, 0, 0, 0, 0}).experts, (Experts{0, 1, 2}));
}

TEST(Choose, TellsValuesApartWhoseSoftmaxIsTheSame) {
  const format::LayerKind kind = router(format::RouterScore::kSoftmax, 3, 2);
  // exp(-200) is zero, and so is exp(-190).
  EXPECT_EQ(chosen(kind, {0, -200, -190}).experts, (Experts{0, 2}));
}

TEST(Choose, TakesWhatIsNoNumberLast) {
  const format::LayerKind kind = router(format::RouterScore::kSigmoid, 4, 3);
  EXPECT_EQ(chosen(kind, {kNan, 1, kNan, -1}).experts, (Experts{1, 3, 0}));
  EXPECT_EQ(chosen(kind, {kNan, kNan, kNan, kNan}).experts, (Experts{0, 1, 2}));
}

TEST(Choose, WeighsByScoresOfAll) {
  const Choice softmax =
      chosen(router(format::RouterScore::kSoftmax, 3, 2), {std::log(5.0f), 0, 0});
  EXPECT_NEAR(softmax.weights[0], 5.0 / 7, 1e-6);
  EXPECT_NEAR(softmax.weights[1], 1.0 / 7, 1e-6);
  const Choice sigmoid =
      chosen(router(format::RouterScore::kSigmoid, 3, 2), {std::log(3.0f), 0, -9});
  EXPECT_NEAR(sigmoid.weights[0], 0.75, 1e-6);
  EXPECT_NEAR(sigmoid.weights[1], 0.5, 1e-6);
}

TEST(Choose, DividesByTheSumOfTheChosenScalesAndMultipliesByFactors) {
  format::LayerKind kind = router(format::RouterScore::kSigmoid, 3, 2);
  kind.flags = flag::kNormalizedChoice;
  kind.router_epsilon = 0.25f;
  kind.router_scale = 3.0f;
  const Choice choice = chosen(kind, {std::log(3.0f), 0, -9}, {}, {1, 4, 100});
  EXPECT_NEAR(choice.weights[0], 0.75 / 1.5 * 3, 1e-6);
  EXPECT_NEAR(choice.weights[1], 0.5 / 1.5 * 3 * 4, 1e-5);
}

TEST(Choose, CountsTheBiasInTheChoiceAlone) {
  const format::LayerKind kind = router(format::RouterScore::kSigmoid, 3, 1);
  const Choice choice = chosen(kind, {0, 2, 0}, {0, 0, 5});
  EXPECT_EQ(choice.experts, (Experts{2}));
  EXPECT_NEAR(choice.weights[0], 0.5, 1e-6);
}

TEST(Choose, TakesOfTheBestGroupsAlone) {
  format::LayerKind kind = router(format::RouterScore::kSoftmax, 6, 2);
  kind.n_groups = 3;
  kind.n_groups_chosen = 1;
  kind.group_rank = 1;
  // The best value decides; the second best of all is in another group.
  EXPECT_EQ(chosen(kind, {8, 7, 9, 0, 1, 1}).experts, (Experts{2, 3}));
  // The sum of two does, a NaN never.
  kind.group_rank = 2;
  EXPECT_EQ(chosen(kind, {8, 7, 9, 0, 1, 1}).experts, (Experts{0, 1}));
  EXPECT_EQ(chosen(kind, {kNan, 7, 9, kNan, 1, 1}).experts, (Experts{4, 5}));
  // Of equal groups the first.
  EXPECT_EQ(chosen(kind, {1, 1, 1, 1, 1, 1}).experts, (Experts{0, 1}));
}

TEST(Choose, TakesOfGroupsThatTheBiasPutsFirst) {
  format::LayerKind kind = router(format::RouterScore::kSigmoid, 4, 2);
  kind.n_groups = 2;
  kind.n_groups_chosen = 1;
  kind.group_rank = 2;
  EXPECT_EQ(chosen(kind, {9, 9, 0, 1}, {0, 0, 5, 5}).experts, (Experts{3, 2}));
}

TEST(Choose, TakesAllThereAre) {
  const format::LayerKind kind = router(format::RouterScore::kSoftmax, 3, 3);
  EXPECT_EQ(chosen(kind, {1, 3, 2}).experts, (Experts{1, 2, 0}));
}

}  // namespace
}  // namespace cria::experts
