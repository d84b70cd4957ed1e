#include "platforms/hosted/machine/isas_without_proc.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#endif

#include <cria.h>
#include "platforms/hosted/machine/cpu.h"

namespace cria::hosted {
namespace {

#if defined(__x86_64__)

// __builtin_cpu_supports also asks whether the system keeps the wide registers; AVX2 stands for
// that of what GCC 12 or Clang 14 has no name for.
constexpr unsigned kF16cOfLeaf1 = 1U << 29;            // ECX
constexpr unsigned kAvxVnniOfLeaf7Subleaf1 = 1U << 4;  // EAX

struct Leaf {
  unsigned eax, ebx, ecx, edx;  // 0 where the CPU does not know the leaf
};

Leaf cpu_leaf(unsigned leaf, unsigned subleaf) {
  Leaf said{};
  if (__get_cpuid_count(leaf, subleaf, &said.eax, &said.ebx, &said.ecx, &said.edx) == 0) return {};
  return said;
}

uint32_t isas_of_kind() {
  __builtin_cpu_init();
  uint32_t mask = 0;
  if (__builtin_cpu_supports("sse4.1")) mask |= CRIA_ISA_SSE4_1;
  if (__builtin_cpu_supports("avx2") && (cpu_leaf(1, 0).ecx & kF16cOfLeaf1) != 0) {
    mask |= CRIA_ISA_AVX2;
    if ((cpu_leaf(7, 1).eax & kAvxVnniOfLeaf7Subleaf1) != 0) mask |= CRIA_ISA_AVX_VNNI;
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    mask |= CRIA_ISA_AVX512_VNNI;
  }
  return mask;
}

#elif defined(__aarch64__)

// Of AT_HWCAP and AT_HWCAP2; older headers have no names for them. NEON and fused products are
// everywhere.
constexpr unsigned long kDotprod = 1UL << 20;
constexpr unsigned long kI8mm = 1UL << 13;

uint32_t isas_of_kind() {
  return arm_isas({.neon = true,
                   .vfpv4 = true,
                   .dotprod = (::getauxval(AT_HWCAP) & kDotprod) != 0,
                   .i8mm = (::getauxval(AT_HWCAP2) & kI8mm) != 0});
}

#elif defined(__arm__)

// Of AT_HWCAP. The build has no kernels with dot products for these CPUs.
constexpr unsigned long kNeon = 1UL << 12;
constexpr unsigned long kVfpv4 = 1UL << 16;

uint32_t isas_of_kind() {
  const unsigned long features = ::getauxval(AT_HWCAP);
  return arm_isas({.neon = (features & kNeon) != 0,
                   .vfpv4 = (features & kVfpv4) != 0,
                   .dotprod = false,
                   .i8mm = false});
}

#else

uint32_t isas_of_kind() { return 0; }

#endif

}  // namespace

uint32_t isas_without_proc() { return CRIA_ISA_SCALAR | isas_of_kind(); }

}  // namespace cria::hosted
