#include "tests/fuzz/time_limit.h"

#include <cstdlib>
#include <ctime>

#include "tests/fuzz/fuzz_target.h"

namespace cria::fuzz {
namespace {

constexpr int kRuns = 3;

bool g_is_late = false;

double thread_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// An emulator is some ten times slower, and its processor time that of a busy machine.
double slowness() { return std::getenv("CRIA_EMULATOR") == nullptr ? 1.0 : 30.0; }

}  // namespace

// 2 s for 16 MB is the converter's limit; an instrumented build is about ten times slower, and
// small inputs are measured against a start of their own.
TimeLimit::TimeLimit(size_t n_bytes)
    : limit_seconds_((0.25 + 10.0 * static_cast<double>(n_bytes) / (1 << 20)) * slowness()),
      start_seconds_(thread_seconds()) {}

TimeLimit::~TimeLimit() {
  if (thread_seconds() - start_seconds_ >= limit_seconds_) g_is_late = true;
}

void run_in_time(int (*target)(const uint8_t*, size_t), const uint8_t* data, size_t size) {
  for (int i = 0; i < kRuns; ++i) {
    g_is_late = false;
    target(data, size);
    if (!g_is_late) return;
  }
  expect(false, "no input takes longer than its size warrants");
}

}  // namespace cria::fuzz
