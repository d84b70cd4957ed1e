// Seeds of tests that explore: the fixed ones of a test, and one more where somebody asks for it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cria::test {

// The seeds given and that of $CRIA_TEST_RANDOM_SEED (scripts/test.sh --all draws one), which is
// printed before it is used, so that it is known where the program ends.
[[nodiscard]] inline std::vector<uint32_t> test_seeds(std::initializer_list<uint32_t> fixed) {
  std::vector<uint32_t> seeds(fixed);
  const char* const more = std::getenv("CRIA_TEST_RANDOM_SEED");
  if (more != nullptr && *more != '\0') {
    seeds.push_back(static_cast<uint32_t>(std::strtoull(more, nullptr, 10)));
    std::printf("CRIA_TEST_RANDOM_SEED=%s\n", more);
    std::fflush(stdout);
  }
  return seeds;
}

// Runs test(seed) for each of test_seeds until one fails; a failure says which.
template <typename Test>
void for_each_seed(std::initializer_list<uint32_t> fixed, const Test& test) {
  for (const uint32_t seed : test_seeds(fixed)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test(seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace cria::test
