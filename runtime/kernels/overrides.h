// Each ISA's entry: replaces in table what it does better, and sets table->isa. Called in rising
// order, so that a kernel an ISA lacks stays the one of the ISA below.
//
// Files of an ISA may define nothing with vague linkage (inline functions, templates): the linker
// would keep one copy for the whole program, perhaps the one that an older CPU cannot run.
// tests/house/symbols.py checks that.
#pragma once

#include "runtime/kernels/kernels.h"

namespace cria {

#if defined(__x86_64__)
void override_sse4_1(Kernels* table);
void override_avx2(Kernels* table);
void override_avxvnni(Kernels* table);
void override_avx512vnni(Kernels* table);

// Parts of the above that stand in files of their own.
void fill_vector_sse4_1(Kernels* table);
void fill_linear_sse4_1(Kernels* table);
void fill_vector_avx2(Kernels* table);
void fill_linear_avx2(Kernels* table);
#endif

#if defined(__aarch64__) || (defined(__arm__) && __ARM_ARCH == 7 && __ARM_ARCH_PROFILE == 'A')
#define CRIA_HAS_NEON_KERNELS 1
void override_neon(Kernels* table);
#endif

#if defined(__aarch64__)
void override_dotprod(Kernels* table);
void override_i8mm(Kernels* table);
#endif

// Armv7E-M and Armv8-M. The build compiles them for cores that have them (cmake/KernelFlags.cmake)
// and says so to select_kernels.cpp with CRIA_HAS_DSP_KERNELS and CRIA_HAS_HELIUM_KERNELS.
void override_dsp(Kernels* table);
void override_helium(Kernels* table);

}  // namespace cria
