// Each ISA's entry: replaces in table what it does better. Called in rising order, so that a kernel
// an ISA lacks stays the one of the ISA below. isa_mask has all that are allowed, which tells what
// kind of core this is. Declared here are all; a build defines those that
// cmake/KernelFlags.cmake has for its processor.
//
// Files of an ISA may define nothing with vague linkage (inline functions, templates): the linker
// would keep one copy for the whole program, perhaps the one that an older CPU cannot run.
// tests/house/symbols.py checks that.
#pragma once

#include "runtime/kernels/kernels.h"

namespace cria {

#define CRIA_ISA_OVERRIDE(isa, ending, name, bit, everywhere) \
  void override_##ending(Kernels* table, uint32_t isa_mask);
CRIA_ISA_LIST(CRIA_ISA_OVERRIDE)
#undef CRIA_ISA_OVERRIDE

// Parts of the above that stand in files of their own.
void fill_vector_sse4_1(Kernels* table);
void fill_linear_sse4_1(Kernels* table);
void fill_vector_avx2(Kernels* table);
void fill_linear_avx2(Kernels* table);
void fill_linear_avxvnni(Kernels* table);
void fill_variants_avx512vnni(Kernels* table);
void fill_variants_neon(Kernels* table);

}  // namespace cria
