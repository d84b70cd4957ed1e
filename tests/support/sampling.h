// Long sweeps (every bit of a file, every size of an arena) try all their cases, or one in
// $CRIA_TEST_ONE_IN. tests/CMakeLists.txt sets it where an emulator or the thread sanitizer is
// slow, scripts/test.sh in the default lane and for sanitizers in --all.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace cria::test {

// From one case to the next: at least 1.
[[nodiscard]] inline size_t sweep_step() {
  const char* const text = std::getenv("CRIA_TEST_ONE_IN");
  const unsigned long step = text == nullptr ? 1 : std::strtoul(text, nullptr, 10);
  return step == 0 ? 1 : step;
}

// How many cases a sweep of n tries, and so must have counted.
[[nodiscard]] inline size_t sweep_cases(size_t n) { return (n + sweep_step() - 1) / sweep_step(); }

}  // namespace cria::test
