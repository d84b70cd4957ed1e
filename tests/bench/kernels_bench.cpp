// Speed of every kernel of runtime/kernels/kernels.h on every ISA of this CPU, one thread, beside
// the machine's limits. Some results of one kernel:
//   kernels_bench --benchmark_filter='limit|matmul_q4_q8_g32/avx512vnni'
#include <benchmark/benchmark.h>

#include "tests/bench/kernel_benchmarks.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const cria::bench::ColdMemory memory;
  cria::bench::Limits limits;
  // First, because the products are compared with them.
  cria::bench::register_limits(memory, &limits);
  cria::bench::register_products(memory, &limits);
  cria::bench::register_vectors(memory);
  const bool has_run = benchmark::RunSpecifiedBenchmarks() > 0;
  benchmark::Shutdown();
  return has_run ? 0 : 1;
}
