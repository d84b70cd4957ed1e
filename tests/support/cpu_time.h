// Processor time, which other programs on the machine hardly change: by the clock a loaded machine
// takes any multiple.
#pragma once

#include <ctime>

namespace cria::test {

// Of the calling thread.
[[nodiscard]] inline double thread_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Of the calling thread while it runs.
template <typename Run>
[[nodiscard]] double thread_seconds_of(const Run& run) {
  const double begin = thread_seconds();
  run();
  return thread_seconds() - begin;
}

}  // namespace cria::test
