#include "runtime/kernels/overrides.h"
#include "runtime/kernels/scalar/scalar.h"

namespace cria {
namespace {

constexpr uint32_t bit(Isa isa) { return 1u << static_cast<uint32_t>(isa); }

// An ISA of this build and how it changes the table.
struct Override {
  Isa isa;
  void (*apply)(Kernels* table);
};

constexpr Override kOverrides[] = {
    {Isa::kScalar, [](Kernels* table) { *table = kScalarKernels; }},
#if defined(__x86_64__)
    {Isa::kSse41, override_sse4_1},
    {Isa::kAvx2, override_avx2},
    {Isa::kAvxVnni, override_avxvnni},
    {Isa::kAvx512Vnni, override_avx512vnni},
#endif
#if defined(CRIA_HAS_NEON_KERNELS)
    {Isa::kNeon, override_neon},
#endif
#if defined(__aarch64__)
    {Isa::kDotprod, override_dotprod},
    {Isa::kI8mm, override_i8mm},
#endif
#if defined(CRIA_HAS_DSP_KERNELS)
    {Isa::kDsp, override_dsp},
#endif
#if defined(CRIA_HAS_HELIUM_KERNELS)
    {Isa::kHelium, override_helium},
#endif
};

// What every CPU that can run this build has. Firmware is built for one core.
#if defined(__aarch64__)
constexpr uint32_t kBuildIsas = bit(Isa::kScalar) | bit(Isa::kNeon);
#elif defined(CRIA_HAS_HELIUM_KERNELS)
constexpr uint32_t kBuildIsas = bit(Isa::kScalar) | bit(Isa::kHelium);
#elif defined(CRIA_HAS_DSP_KERNELS)
constexpr uint32_t kBuildIsas = bit(Isa::kScalar) | bit(Isa::kDsp);
#else
constexpr uint32_t kBuildIsas = bit(Isa::kScalar);
#endif

}  // namespace

uint32_t built_isas() {
  uint32_t mask = 0;
  for (const Override& o : kOverrides) mask |= bit(o.isa);
  return mask;
}

uint32_t baseline_isas() { return kBuildIsas; }

bool select_kernels(uint32_t mask, Kernels* table) {
  const uint32_t allowed = mask == 0 ? kBuildIsas : mask;
  // Whatever an ISA does not override is scalar.
  *table = kScalarKernels;
  bool found = false;
  for (const Override& o : kOverrides) {
    if ((allowed & bit(o.isa)) == 0) continue;
    o.apply(table);
    found = true;
  }
  return found;
}

}  // namespace cria
