#include "tests/bench/dot_peak.h"

#if !defined(__SSE4_1__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

namespace cria::bench {
namespace {

struct Dot {
  using Ints = __m128i;
  static Ints add(Ints sum, Ints weights, Ints x) {
    return _mm_add_epi16(sum, _mm_maddubs_epi16(weights, x));
  }
};

}  // namespace

void dot_peak_sse4_1(size_t n_steps) { run_dot_peak<Dot>(n_steps); }

}  // namespace cria::bench
