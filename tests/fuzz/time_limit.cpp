#include "tests/fuzz/time_limit.h"

#include <cstdlib>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/cpu_time.h"

namespace cria::fuzz {
namespace {

constexpr int kRuns = 3;

bool g_is_late = false;
double g_factor = 1.0;

// An emulator is some ten times slower, and its processor time that of a busy machine.
double slowness() { return std::getenv("CRIA_EMULATOR") == nullptr ? 1.0 : 30.0; }

}  // namespace

// 2 s for 16 MB is the converter's limit; an instrumented build is about ten times slower, and
// small inputs are measured against a start of their own.
TimeLimit::TimeLimit(size_t n_bytes)
    : limit_seconds_((0.25 + 10.0 * static_cast<double>(n_bytes) / (1 << 20)) * slowness() *
                     g_factor),
      start_seconds_(test::thread_seconds()) {}

TimeLimit::~TimeLimit() {
  if (test::thread_seconds() - start_seconds_ >= limit_seconds_) g_is_late = true;
}

void multiply_limits(double factor) { g_factor = factor; }

void run_in_time(int (*target)(const uint8_t*, size_t), const uint8_t* data, size_t size) {
  for (int i = 0; i < kRuns; ++i) {
    g_is_late = false;
    target(data, size);
    if (!g_is_late) return;
  }
  expect(false, "no input takes longer than its size warrants");
}

}  // namespace cria::fuzz
