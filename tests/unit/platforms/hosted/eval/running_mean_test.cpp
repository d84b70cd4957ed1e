#include "platforms/hosted/eval/running_mean.h"

#include <gtest/gtest.h>

namespace cria::hosted {
namespace {

TEST(RunningMeanTest, MeanAndStandardErrorAreThoseOfTheNumbers) {
  RunningMean mean;
  EXPECT_TRUE(std::isnan(mean.error()));
  mean.add(5.0);
  EXPECT_EQ(mean.mean(), 5.0);
  EXPECT_TRUE(std::isnan(mean.error()));
  for (const double value : {1.0, 4.0, 6.0}) mean.add(value);
  EXPECT_EQ(mean.count(), 4U);
  EXPECT_DOUBLE_EQ(mean.mean(), 4.0);
  // Squared distances 1, 9, 0, 4: their sum by 3 is the variance.
  EXPECT_DOUBLE_EQ(mean.error(), std::sqrt(14.0 / 3.0 / 4.0));
}

TEST(RunningMeanTest, SmallDifferencesOfLargeNumbersAreKept) {
  RunningMean mean;
  for (const double value : {1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0}) mean.add(value);
  EXPECT_DOUBLE_EQ(mean.mean(), 1e9 + 2.0);
  EXPECT_NEAR(mean.error(), std::sqrt(1.0 / 3.0), 1e-6);
}

}  // namespace
}  // namespace cria::hosted
