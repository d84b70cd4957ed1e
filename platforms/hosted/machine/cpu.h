// What the machine offers: threads worth starting, and its description for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cria::hosted {

constexpr uint32_t kMostThreads = 256;  // that the runtime takes

// Sources of the thread count, each 0 when unknown.
struct CpuCounts {
  uint32_t fast_cores;  // physical cores that are not from a markedly slower cluster
  uint32_t allowed;     // logical processors of the affinity mask
  uint32_t quota;       // whole processors of the cgroups' CPU quotas, rounded up
  uint32_t any;         // what the C++ library knows
};

CpuCounts count_cpus();

// Whether cpuinfo knows of processors; not where /proc/cpuinfo names none. To be asked before it is
// asked anything.
bool knows_processors();

// Physical fast cores, but never more than the affinity mask and the quota allow; where the cores
// are unknown what the C++ library knows; from 1 to kMostThreads.
uint32_t choose_threads(const CpuCounts& counts);

// choose_threads of this machine. Never fails, also without /proc and /sys.
uint32_t default_threads();

// "AMD EPYC, 2 cores; sse4.1 avx2 avx512vnni"; "unknown CPU" at worst.
std::string machine_description();

// An instruction set by its name on the command line and its CRIA_ISA_ bit.
struct IsaName {
  const char* name;
  uint32_t bit;
};
// Those of a mask, in rising order.
std::vector<IsaName> isa_names(uint32_t isas);

// What decides about Arm's kernels.
struct ArmFeatures {
  bool neon;
  bool vfpv4;  // fused products and conversions of halves, which the kernels use: a Cortex-A8 or A9
               // has NEON without them
  bool dotprod;
  bool i8mm;
};
// CRIA_ISA_ bits of kernels that run with these features; none without both of the first two.
uint32_t arm_isas(const ArmFeatures& features);

// CRIA_ISA_ bits of this CPU, the scalar one always among them. Never fails.
uint32_t cpu_isas();
// CRIA_ISA_ bits that cpu_isas finds where the CPU has them.
uint32_t detectable_isas();

// Space-separated names, from slow to fast, of the instruction sets the CPU has among those that
// --isa knows.
std::string isa_features();

}  // namespace cria::hosted
