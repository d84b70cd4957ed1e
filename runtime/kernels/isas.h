// The one list of instruction sets. The enum, the overrides and their declarations, the names that
// people see and the rows that tests go through follow from it. What cannot follow has a row an
// ISA: the public bit in cria.h, flags in cmake/KernelFlags.cmake, and who asks the CPU
// (platforms/hosted, tests/support/isa_list.cpp). tests/house/isas.py and unit tests miss a row.
#pragma once

#include <bit>
#include <cstdint>
#include <iterator>

#include <cria.h>

namespace cria {

#if defined(__aarch64__)
inline constexpr bool kIsAarch64 = true;
#else
inline constexpr bool kIsAarch64 = false;
#endif

// In rising order: X(enumerator, ending, name, bit, everywhere)
//   ending      of the names of its source files and of its override function
//   name        for people: --isa, cria_isa_name
//   bit         of cria_config.isa_mask
//   everywhere  whether every CPU has it that can run a build with its kernels; firmware is built
//               for one core
#define CRIA_ISA_LIST(X)                                                \
  X(kScalar, scalar, "scalar", CRIA_ISA_SCALAR, true)                   \
  X(kSse41, sse4_1, "sse4.1", CRIA_ISA_SSE4_1, false)                   \
  X(kAvx2, avx2, "avx2", CRIA_ISA_AVX2, false)                          \
  X(kAvxVnni, avxvnni, "avxvnni", CRIA_ISA_AVX_VNNI, false)             \
  X(kAvx512Vnni, avx512vnni, "avx512vnni", CRIA_ISA_AVX512_VNNI, false) \
  X(kNeon, neon, "neon", CRIA_ISA_NEON, kIsAarch64)                     \
  X(kDotprod, dotprod, "dotprod", CRIA_ISA_DOTPROD, false)              \
  X(kI8mm, i8mm, "i8mm", CRIA_ISA_I8MM, false)                          \
  X(kDsp, dsp, "dsp", CRIA_ISA_DSP, true)                               \
  X(kHelium, helium, "helium", CRIA_ISA_HELIUM, true)

// The value is the place of the bit.
enum class Isa : uint32_t {
#define CRIA_ISA_VALUE(isa, ending, name, bit, everywhere) isa = std::countr_zero(unsigned{bit}),
  CRIA_ISA_LIST(CRIA_ISA_VALUE)
#undef CRIA_ISA_VALUE
};

struct IsaEntry {
  Isa isa;
  const char* ending;
  const char* name;
  uint32_t bit;
  bool is_everywhere;
};

inline constexpr IsaEntry kIsaList[] = {
#define CRIA_ISA_ENTRY(isa, ending, name, bit, everywhere) \
  {Isa::isa, #ending, name, uint32_t{bit}, everywhere},
    CRIA_ISA_LIST(CRIA_ISA_ENTRY)
#undef CRIA_ISA_ENTRY
};

// Each ISA has one bit of its own, and the order of the bits is that of the list.
[[nodiscard]] consteval bool bits_rise() {
  uint32_t last = 0;
  for (const IsaEntry& row : kIsaList) {
    if (!std::has_single_bit(row.bit) || row.bit <= last) return false;
    last = row.bit;
  }
  return true;
}
static_assert(bits_rise());

}  // namespace cria
