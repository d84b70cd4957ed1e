#include "tests/bench/bench_limits.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>

#include "platforms/hosted/bench/read_bandwidth.h"
#include "tests/bench/dot_peak.h"
#include "tests/support/isa_list.h"

namespace cria::bench {
namespace {

constexpr size_t kColdBytes = size_t{320} << 20;  // holds the largest matrix, 128256 x 2048 int8

void read_bandwidth(benchmark::State& state, const ColdMemory& memory, hosted::ReadAhead ahead,
                    double* best) {
  for (auto _ : state) {
    const double begin = cpu_seconds();
    benchmark::DoNotOptimize(hosted::read_all(memory.data(), memory.size_bytes(), ahead));
    const double seconds = cpu_seconds() - begin;
    *best = std::max(*best, static_cast<double>(memory.size_bytes()) / seconds);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(memory.size_bytes()));
}

struct ReadWay {
  const char* name;
  hosted::ReadAhead ahead;
};

constexpr ReadWay kReadWays[] = {{"plain", hosted::ReadAhead::kNone},
                                 {"each_line", hosted::ReadAhead::kEachLine},
                                 {"bursts", hosted::ReadAhead::kBursts},
                                 {"pages", hosted::ReadAhead::kPages}};
static_assert(std::size(kReadWays) == std::size(hosted::kReadAheads));

struct DotPeak {
  Isa isa;
  size_t multiply_adds;  // of one instruction, or pair of them
  void (*run)(size_t n_steps);
};

constexpr DotPeak kDotPeaks[] = {
#if defined(__x86_64__)
    {Isa::kSse41, 16, dot_peak_sse4_1},
    {Isa::kAvx2, 32, dot_peak_avx2},
    {Isa::kAvxVnni, 32, dot_peak_avxvnni},
    {Isa::kAvx512Vnni, 64, dot_peak_avx512vnni},
#endif
};

void dot_products(benchmark::State& state, const DotPeak& peak, double* best) {
  constexpr size_t kSteps = 100000;  // a millisecond or less
  const double done = static_cast<double>(kSteps * kDotPeakSums * peak.multiply_adds);
  for (auto _ : state) {
    const double begin = cpu_seconds();
    peak.run(kSteps);
    *best = std::max(*best, done / (cpu_seconds() - begin));
  }
  state.counters["multiply_adds"] = benchmark::Counter(
      done * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

}  // namespace

double cpu_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

ColdMemory::ColdMemory() : memory_(kColdBytes) {
  std::memset(memory_.data(), kColdByte, memory_.size_bytes());
}

void register_limits(const ColdMemory& memory, Limits* limits) {
  for (const ReadWay& way : kReadWays) {
    benchmark::RegisterBenchmark((std::string("limit/read_bandwidth/") + way.name).c_str(),
                                 [&memory, way, limits](benchmark::State& state) {
                                   read_bandwidth(state, memory, way.ahead,
                                                  &limits->bytes_per_second);
                                 });
  }
  for (const test::IsaRow& isa : test::runnable_isas()) {
    for (const DotPeak& peak : kDotPeaks) {
      if (isa.isa != peak.isa) continue;
      benchmark::RegisterBenchmark((std::string("limit/dot_products/") + isa.name).c_str(),
                                   [peak, isa, limits](benchmark::State& state) {
                                     dot_products(state, peak,
                                                  &limits->multiply_adds_per_second[isa.name]);
                                   });
    }
  }
}

}  // namespace cria::bench
