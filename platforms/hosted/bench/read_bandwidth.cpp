#include "platforms/hosted/bench/read_bandwidth.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/thread_pool.h"
#include "platforms/hosted/session/arena_memory.h"

namespace cria::hosted {
namespace {

constexpr size_t kBytes = size_t{256} << 20;
constexpr int kLeastPasses = 3;
constexpr double kSeconds = 1.0;
constexpr double kNever = 1e9;
constexpr size_t kLineBytes = 64;

struct Read {
  const uint8_t* memory;
  size_t n_parts;
  ReadAhead ahead;
  std::vector<uint64_t> sums;
};

void read_part(void* argument, size_t part) {
  Read& read = *static_cast<Read*>(argument);
  const size_t n_bytes = kBytes / read.n_parts / kLineBytes * kLineBytes;
  read.sums[part] += read_all(read.memory + part * n_bytes, n_bytes, read.ahead);
}

// Independent sums of cache lines, which the compiler makes vectors of.
template <ReadAhead kAhead>
uint64_t sum_lines(const uint64_t* line, size_t n_lines) {
  constexpr size_t kWords = kLineBytes / sizeof(uint64_t);
  constexpr size_t kBurstLines = 64;
  constexpr size_t kLinesAhead = 96;
  // The runtime's own, in runtime/kernels/weight_fetch.h, may change with the kernels.
  constexpr size_t kPageBytes = 4096;
  constexpr size_t kPageLines = 2;
  uint64_t sums[kWords] = {};
  for (size_t i = 0; i < n_lines; ++i, line += kWords) {
    if constexpr (kAhead == ReadAhead::kEachLine) __builtin_prefetch(line + kLinesAhead * kWords);
    if constexpr (kAhead == ReadAhead::kBursts) {
      if (i % kBurstLines == 0) {
        for (size_t j = 0; j < kBurstLines; ++j) {
          __builtin_prefetch(line + (kLinesAhead + j) * kWords);
        }
      }
    }
    if constexpr (kAhead == ReadAhead::kPages) {
      if (reinterpret_cast<uintptr_t>(line) % kPageBytes < kLineBytes) {
        for (size_t j = 0; j < kPageLines; ++j) {
          __builtin_prefetch(line + kPageBytes / sizeof(uint64_t) + j * kWords);
        }
      }
    }
    for (size_t j = 0; j < kWords; ++j) sums[j] += line[j];
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

uint64_t read_all(const void* memory, size_t n_bytes, ReadAhead ahead) {
  const auto* words = static_cast<const uint64_t*>(memory);
  const size_t n_lines = n_bytes / kLineBytes;
  switch (ahead) {
    case ReadAhead::kNone:
      return sum_lines<ReadAhead::kNone>(words, n_lines);
    case ReadAhead::kEachLine:
      return sum_lines<ReadAhead::kEachLine>(words, n_lines);
    case ReadAhead::kBursts:
      return sum_lines<ReadAhead::kBursts>(words, n_lines);
    case ReadAhead::kPages:
      break;
  }
  return sum_lines<ReadAhead::kPages>(words, n_lines);
}

double measure_read_bandwidth(uint32_t n_threads) {
  const ArenaMemory memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  ThreadPool pool(n_threads, FewerThreads::kAreRefused);
  Read read = {static_cast<const uint8_t*>(memory.data()), n_threads, ReadAhead::kNone,
               std::vector<uint64_t>(n_threads)};
  // In turns, so that a neighbour's work does not choose the way. All bytes over all the time, as a
  // decode speed is all tokens over all the time: a median of single passes leaves out the moments
  // in which neighbours take the memory.
  double seconds[std::size(kReadAheads)] = {};
  int n_passes = 0;
  for (double total = 0; n_passes < kLeastPasses || total < kSeconds; ++n_passes) {
    for (size_t i = 0; i < std::size(kReadAheads); ++i) {
      read.ahead = kReadAheads[i];
      const double started = monotonic_seconds();
      pool.run(&read_part, &read, n_threads);
      const double taken = std::max(monotonic_seconds() - started, 1e-9);
      // What the sums are is of no interest, but they must be computed.
      seconds[i] += read.sums[0] == 0 ? kNever : taken;
      total += taken;
    }
  }
  const double best = *std::min_element(std::begin(seconds), std::end(seconds));
  return static_cast<double>(kBytes) * n_passes / best;
}

}  // namespace cria::hosted
