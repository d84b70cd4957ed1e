#include "runtime/kernels/overrides.h"
#include "runtime/kernels/scalar.h"

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
    {Isa::kAvx512Vnni, override_avx512vnni},
#endif
};

}  // namespace

bool select_kernels(uint32_t mask, Kernels* table) {
  const uint32_t allowed = mask == 0 ? bit(Isa::kScalar) : mask;
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
