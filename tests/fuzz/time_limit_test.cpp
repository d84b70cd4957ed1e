// That the fuzz targets' promise on time is held against slow work, and not against a pause.
#include "tests/fuzz/time_limit.h"

#include <cstdlib>
#include <ctime>

#include <gtest/gtest.h>

namespace cria::fuzz {
namespace {

int g_runs = 0;
int g_late_runs = 0;  // of these, the first so many

// Longer than a small input may take.
void take_long() {
  const auto begin = std::clock();
  while (std::clock() - begin < CLOCKS_PER_SEC * 3 / 10) continue;
}

int target(const uint8_t*, size_t size) {
  const TimeLimit limit(size);
  if (g_runs++ < g_late_runs) take_long();
  return 0;
}

class TimeLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CRIA_EMULATOR") != nullptr) GTEST_SKIP() << "an emulator's limit is long";
  }
};

TEST_F(TimeLimitTest, AnInputThatIsQuickAtLastIsTaken) {
  for (const int n_late : {0, 1, 2}) {
    g_runs = 0;
    g_late_runs = n_late;
    run_in_time(target, nullptr, 0);
    EXPECT_EQ(g_runs, n_late + 1);
  }
}

TEST_F(TimeLimitTest, OneThatIsAlwaysLateEndsTheProcess) {
  g_runs = 0;
  g_late_runs = 3;
  EXPECT_DEATH(run_in_time(target, nullptr, 0), "no input takes longer than its size warrants");
}

TEST_F(TimeLimitTest, GrowsWithTheInput) {
  g_runs = 0;
  g_late_runs = 1;
  run_in_time(target, nullptr, size_t{1} << 20);  // its bytes are not looked at
  EXPECT_EQ(g_runs, 1);
}

}  // namespace
}  // namespace cria::fuzz
