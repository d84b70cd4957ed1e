// A promise on time: no work on an input takes longer than its size warrants.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::fuzz {

// Measures this thread's time from its construction to its end, within a run of `run_in_time`.
class TimeLimit {
 public:
  // n_bytes: size of the input.
  explicit TimeLimit(size_t n_bytes);
  // Takes note when more time went by than the input may take: generous enough for the sanitizers,
  // and not held against an emulator.
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  double limit_seconds_;
  double start_seconds_;
};

// Every limit from now on is so many times as long.
void multiply_limits(double factor);

// Runs a target on an input; again where a limit was passed, and ends the process when it was in
// each of three runs: what a machine takes for itself meanwhile counts as the thread's time, but
// does not come at the same place each time.
void run_in_time(int (*target)(const uint8_t*, size_t), const uint8_t* data, size_t size);

}  // namespace cria::fuzz
