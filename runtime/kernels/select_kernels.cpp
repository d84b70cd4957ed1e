#include <string_view>

#include "runtime/base/features.h"
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/scalar/scalar.h"

namespace cria {

void override_scalar(Kernels* table, uint32_t /*isa_mask*/) {
  *table = kScalarKernels;
  if constexpr (kHasVariants) table->variants = kScalarVariants;
  if constexpr (kHasBlocks) table->states = kScalarStates;
}

namespace {

// The endings of the kernels' files that cmake/KernelFlags.cmake has for this processor, each with
// a blank after it.
constexpr std::string_view kBuiltEndings = CRIA_BUILT_KERNELS;

consteval bool is_built(std::string_view ending) {
  for (size_t begin = 0; begin < kBuiltEndings.size();) {
    const size_t end = kBuiltEndings.find(' ', begin);
    if (kBuiltEndings.substr(begin, end - begin) == ending) return true;
    begin = end + 1;
  }
  return ending == "scalar";
}

// How each ISA of the list changes the table; null where this build has no kernels for it.
using Override = void (*)(Kernels* table, uint32_t isa_mask);
constexpr Override kOverrides[] = {
#define CRIA_ISA_ROW(isa, ending, name, bit, everywhere) \
  is_built(#ending) ? override_##ending : nullptr,
    CRIA_ISA_LIST(CRIA_ISA_ROW)
#undef CRIA_ISA_ROW
};

consteval uint32_t built_bits(bool only_everywhere) {
  uint32_t mask = 0;
  for (const IsaEntry& isa : kIsaList) {
    if (is_built(isa.ending) && (isa.is_everywhere || !only_everywhere)) mask |= isa.bit;
  }
  return mask;
}
constexpr uint32_t kBuiltIsas = built_bits(false);
constexpr uint32_t kBaselineIsas = built_bits(true);

}  // namespace

uint32_t built_isas() { return kBuiltIsas; }

uint32_t baseline_isas() { return kBaselineIsas; }

bool select_kernels(uint32_t mask, Kernels* table) {
  const uint32_t allowed = mask == 0 ? kBaselineIsas : mask;
  // Whatever an ISA does not override is scalar.
  override_scalar(table, allowed);
  bool found = false;
  for (size_t i = 0; i < std::size(kIsaList); ++i) {
    if ((allowed & kBuiltIsas & kIsaList[i].bit) == 0) continue;
    kOverrides[i](table, allowed);
    table->isa = kIsaList[i].name;
    found = true;
  }
  return found;
}

}  // namespace cria
