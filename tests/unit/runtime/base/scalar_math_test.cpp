#include "runtime/base/scalar_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "tests/support/max_or_nan.h"

namespace cria {
namespace {

TEST(ScalarMath, ExpIsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  size_t compared = 0;
  for (float x = kExpLowest; x < kExpHighest; x += 0.0037f, ++compared) {
    const double want = std::exp(static_cast<double>(x));
    const float rounded = static_cast<float>(want);
    const double ulp =
        static_cast<double>(std::nextafter(rounded, HUGE_VALF)) - static_cast<double>(rounded);
    worst = test::max_or_nan(worst, std::fabs(static_cast<double>(exp_f32(x)) - want) / ulp);
  }
  std::printf("exp: %zu values, largest error %.3f ulp\n", compared, worst);
  EXPECT_GT(compared, 40000u);
  EXPECT_LT(worst, 2.0);
}

TEST(ScalarMath, ExpOfExtremesIsDefined) {
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-87.5f), 0.0f);
  EXPECT_EQ(exp_f32(-HUGE_VALF), 0.0f);
  EXPECT_EQ(exp_f32(HUGE_VALF), exp_f32(kExpHighest));
  EXPECT_TRUE(std::isfinite(exp_f32(std::numeric_limits<float>::quiet_NaN())));
  // Nothing it returns is subnormal.
  EXPECT_GE(exp_f32(kExpLowest), std::numeric_limits<float>::min());
}

TEST(ScalarMath, SoftplusIsExactAsFloatsAre) {
  double worst = 0;
  size_t compared = 0;
  for (float x = -86.0f; x < 120.0f; x += 0.0037f, ++compared) {
    const double want = std::log1p(std::exp(-std::fabs(static_cast<double>(x)))) +
                        std::fmax(static_cast<double>(x), 0.0);
    worst = test::max_or_nan(worst, std::fabs(static_cast<double>(softplus(x)) - want) / want);
  }
  std::printf("softplus: %zu values, largest error %.3g of it\n", compared, worst);
  EXPECT_GT(compared, 40000u);
  EXPECT_LT(worst, 0x1p-22);
  EXPECT_EQ(softplus(-HUGE_VALF), 0.0f);
  EXPECT_EQ(softplus(HUGE_VALF), HUGE_VALF);
  EXPECT_TRUE(std::isfinite(softplus(std::numeric_limits<float>::quiet_NaN())));
}

TEST(ScalarMath, SineAndCosineAgreeWithTheLibraryForAnglesOfLongContexts) {
  double worst = 0;
  size_t compared = 0;
  for (double x = 0; x < 1.7e7; x = x * 1.0003 + 0.01, ++compared) {
    const double angle = static_cast<double>(static_cast<float>(x));
    const SinCos got = sin_cos(angle);
    worst = test::max_or_nan(worst, std::fabs(got.sine - std::sin(angle)));
    worst = test::max_or_nan(worst, std::fabs(got.cosine - std::cos(angle)));
  }
  std::printf("sin, cos: %zu angles, largest error %.3g\n", compared, worst);
  EXPECT_GT(compared, 30000u);
  // Far below the 6e-8 of an f32 in [0.5, 1).
  EXPECT_LT(worst, 1e-13);
}

TEST(ScalarMath, SineAndCosineOfQuadrantsHaveTheRightSigns) {
  const double half_pi = 1.5707963267948966;
  for (int i = 0; i < 8; ++i) {
    const double x = (i + 0.5) * half_pi;
    EXPECT_EQ(sin_cos(x).sine > 0, std::sin(x) > 0) << i;
    EXPECT_EQ(sin_cos(x).cosine > 0, std::cos(x) > 0) << i;
  }
}

}  // namespace
}  // namespace cria
