#include "tests/support/isa_list.h"

#include <string_view>

#include "runtime/kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#endif

namespace cria::test {
namespace {

struct Candidate {
  const char* name;
  Isa isa;
  bool (*cpu_has)();
};

bool always() { return true; }

#if defined(__x86_64__)
// What GCC 12 or Clang 14 has no name for in __builtin_cpu_supports is asked of CPUID. The system
// must keep the wide registers, which AVX2's answer includes.
bool has_avx2_and_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") != 0 && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
         (ecx & bit_F16C) != 0;
}

// Leaf 7, subleaf 1, EAX bit 4.
bool has_avxvnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") != 0 &&
         __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1u << 4)) != 0;
}

constexpr Candidate kCandidates[] = {
    {"scalar", Isa::kScalar, always},
    {"sse4.1", Isa::kSse41, [] { return __builtin_cpu_supports("sse4.1") != 0; }},
    {"avx2", Isa::kAvx2, has_avx2_and_f16c},
    {"avxvnni", Isa::kAvxVnni, has_avxvnni},
    {"avx512vnni", Isa::kAvx512Vnni,
     [] {
       return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
              __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
              __builtin_cpu_supports("avx512vnni") != 0;
     }},
};
#elif defined(__aarch64__)
constexpr unsigned long kHwcapDotprod = 1ul << 20;
constexpr unsigned long kHwcap2I8mm = 1ul << 13;
constexpr Candidate kCandidates[] = {
    {"scalar", Isa::kScalar, always},
    {"neon", Isa::kNeon, always},
    {"dotprod", Isa::kDotprod, [] { return (::getauxval(AT_HWCAP) & kHwcapDotprod) != 0; }},
    {"i8mm", Isa::kI8mm, [] { return (::getauxval(AT_HWCAP2) & kHwcap2I8mm) != 0; }},
};
#elif defined(__arm__)
constexpr unsigned long kHwcapNeonVfpv4 = (1ul << 12) | (1ul << 16);
constexpr Candidate kCandidates[] = {
    {"scalar", Isa::kScalar, always},
    {"neon", Isa::kNeon,
     [] { return (::getauxval(AT_HWCAP) & kHwcapNeonVfpv4) == kHwcapNeonVfpv4; }},
};
#else
constexpr Candidate kCandidates[] = {{"scalar", Isa::kScalar, always}};
#endif

std::vector<IsaRow> rows(bool only_runnable) {
  std::vector<IsaRow> found;
  uint32_t mask = 0;
  for (const Candidate& c : kCandidates) {
    if (only_runnable && !c.cpu_has()) continue;
    mask |= 1u << static_cast<uint32_t>(c.isa);
    Kernels table;
    // An ISA that the build lacks leaves the table to the one below.
    if (select_kernels(mask, &table) && std::string_view(table.isa) == c.name) {
      found.push_back({c.name, mask});
    }
  }
  return found;
}

}  // namespace

std::vector<IsaRow> runnable_isas() { return rows(true); }

std::vector<IsaRow> built_isas() { return rows(false); }

}  // namespace cria::test
