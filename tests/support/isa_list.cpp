#include "tests/support/isa_list.h"

#include <span>
#include <stdexcept>
#include <string>

#include "runtime/kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#endif

namespace cria::test {
namespace {

// How to ask the CPU for an ISA that not every CPU of this kind has.
struct Question {
  Isa isa;
  bool (*cpu_has)();
};

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
  return has_avx2_and_f16c() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 &&
         (eax & (1u << 4)) != 0;
}

constexpr Question kQuestions[] = {
    {Isa::kSse41, [] { return __builtin_cpu_supports("sse4.1") != 0; }},
    {Isa::kAvx2, has_avx2_and_f16c},
    {Isa::kAvxVnni, has_avxvnni},
    {Isa::kAvx512Vnni,
     [] {
       return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
              __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
              __builtin_cpu_supports("avx512vnni") != 0;
     }},
};
#elif defined(__aarch64__)
constexpr unsigned long kHwcapDotprod = 1ul << 20;
constexpr unsigned long kHwcap2I8mm = 1ul << 13;
constexpr Question kQuestions[] = {
    {Isa::kDotprod, [] { return (::getauxval(AT_HWCAP) & kHwcapDotprod) != 0; }},
    {Isa::kI8mm, [] { return (::getauxval(AT_HWCAP2) & kHwcap2I8mm) != 0; }},
};
#elif defined(__arm__)
constexpr unsigned long kHwcapNeonVfpv4 = (1ul << 12) | (1ul << 16);
constexpr Question kQuestions[] = {
    {Isa::kNeon, [] { return (::getauxval(AT_HWCAP) & kHwcapNeonVfpv4) == kHwcapNeonVfpv4; }},
};
#else
constexpr std::span<const Question> kQuestions;
#endif

bool cpu_has(const IsaEntry& isa) {
  if (isa.is_everywhere) return true;
  for (const Question& question : kQuestions) {
    if (question.isa == isa.isa) return question.cpu_has();
  }
  throw std::logic_error(std::string("no test asks the CPU for ") + isa.name);
}

std::vector<IsaRow> rows(bool only_runnable) {
  std::vector<IsaRow> found;
  uint32_t mask = 0;
  for (const IsaEntry& isa : kIsaList) {
    if ((isa.bit & cria::built_isas()) == 0 || (only_runnable && !cpu_has(isa))) continue;
    mask |= isa.bit;
    found.push_back({isa.isa, isa.name, mask});
  }
  return found;
}

}  // namespace

std::vector<IsaRow> runnable_isas() { return rows(true); }

std::vector<IsaRow> built_isas() { return rows(false); }

}  // namespace cria::test
