#include "tests/bench/dot_peak.h"

#if !defined(__AVX512VNNI__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

namespace cria::bench {
namespace {

struct Dot {
  using Ints = __m512i;
  static Ints add(Ints sum, Ints weights, Ints x) { return _mm512_dpbusd_epi32(sum, weights, x); }
};

}  // namespace

void dot_peak_avx512vnni(size_t n_steps) { run_dot_peak<Dot>(n_steps); }

}  // namespace cria::bench
