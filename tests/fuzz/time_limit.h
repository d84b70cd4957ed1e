// A promise on time: no work on an input takes longer than its size warrants.
#pragma once

#include <cstddef>

namespace cria::fuzz {

// Measures this thread's time from its construction on.
class TimeLimit {
 public:
  // n_bytes: size of the input.
  explicit TimeLimit(size_t n_bytes);
  // Ends the process when more time went by than the input may take: generous enough for the
  // sanitizers, and not held against an emulator or a build that is none of libFuzzer's.
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  double limit_seconds_;
  double start_seconds_;
};

}  // namespace cria::fuzz
