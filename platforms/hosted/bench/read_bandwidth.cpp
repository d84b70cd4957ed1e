#include "platforms/hosted/bench/read_bandwidth.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/thread_pool.h"
#include "platforms/hosted/bench/bench_run.h"
#include "platforms/hosted/session/arena_memory.h"

namespace cria::hosted {
namespace {

constexpr size_t kBytes = size_t{256} << 20;
constexpr int kPasses = 9;

struct Read {
  const uint8_t* memory;
  size_t n_parts;
  std::vector<uint64_t> sums;
};

void read_part(void* argument, size_t part) {
  Read& read = *static_cast<Read*>(argument);
  constexpr size_t kLine = 64;
  const size_t n_bytes = kBytes / read.n_parts / kLine * kLine;
  read.sums[part] += read_all(read.memory + part * n_bytes, n_bytes);
}

}  // namespace

// Independent sums of cache lines, which the compiler makes vectors of. Lines are asked for in
// bursts, as the kernels do: more are under way than plain loads have.
uint64_t read_all(const void* memory, size_t n_bytes) {
  constexpr size_t kWords = 8;
  constexpr size_t kBurstLines = 64;
  constexpr size_t kLinesAhead = 96;
  const auto* line = static_cast<const uint64_t*>(memory);
  const size_t n_lines = n_bytes / (kWords * sizeof(uint64_t));
  uint64_t sums[kWords] = {};
  for (size_t i = 0; i < n_lines; ++i, line += kWords) {
    if (i % kBurstLines == 0) {
      for (size_t j = 0; j < kBurstLines; ++j) {
        __builtin_prefetch(line + (kLinesAhead + j) * kWords);
      }
    }
    for (size_t j = 0; j < kWords; ++j) sums[j] += line[j];
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

double measure_read_bandwidth(uint32_t n_threads) {
  const ArenaMemory memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  ThreadPool pool(n_threads, FewerThreads::kAreRefused);
  Read read = {static_cast<const uint8_t*>(memory.data()), n_threads,
               std::vector<uint64_t>(n_threads)};
  std::vector<double> speeds;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double started = monotonic_seconds();
    pool.run(&read_part, &read, n_threads);
    const double seconds = std::max(monotonic_seconds() - started, 1e-9);
    // What the sums are is of no interest, but they must be computed.
    speeds.push_back(read.sums[0] == 0 ? 0 : static_cast<double>(kBytes) / seconds);
  }
  return spread_of(speeds).median;
}

}  // namespace cria::hosted
