#include "runtime/base/random.h"

#include <gtest/gtest.h>

namespace cria {
namespace {

// Values computed from the published algorithm with Python's integers; the same program gives the
// author's own demonstration values (0xa15c02b7, 0x7b47f409, 0xba1d3330, ...) for seed 42,
// stream 54.
TEST(Pcg32, DrawsTheNumbersOfThePublishedAlgorithm) {
  Pcg32 zero = Pcg32::seeded(0);
  EXPECT_EQ(zero.next(), 0xe823a24eu);
  EXPECT_EQ(zero.next(), 0x7a7ecbd9u);
  Pcg32 other = Pcg32::seeded(42);
  EXPECT_EQ(other.next(), 0xc2f57bd6u);
  EXPECT_EQ(other.next(), 0x6b07c4a9u);
}

TEST(Pcg32, UnitNumbersAreBelowOneAndUniform) {
  Pcg32 random = Pcg32::seeded(7);
  constexpr int kDraws = 100000;
  int buckets[10] = {};
  for (int i = 0; i < kDraws; ++i) {
    const float u = random.next_unit();
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ++buckets[static_cast<int>(u * 10)];
  }
  // Each bucket is binomial with standard deviation sqrt(n * 0.1 * 0.9) = 95: five of them.
  for (const int count : buckets) EXPECT_NEAR(count, kDraws / 10, 475);
}

}  // namespace
}  // namespace cria
