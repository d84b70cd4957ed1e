// Integer products for processors with AVX-VNNI; tile_kernels.h has the algorithm.
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/tile_kernels.h"

#if !defined(__AVX2__) || !defined(__F16C__) || !defined(__AVXVNNI__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/lanes_avx2.h"

namespace cria {
namespace {

struct Part : EightLanes {
  static constexpr size_t kRows = 8;
  static constexpr bool kFetchesAtPages = true;

  // Sums start at what the weights' offset adds, taken away.
  struct Dot {
    static constexpr size_t kRows = 6;
    static constexpr size_t kStep = 1;
    static Ints begin(Ints start) { return start; }
    static Ints add(Ints sum, const Ints (&weights)[kStep], const Ints (&x)[kStep]) {
      return _mm256_dpbusd_avx_epi32(sum, weights[0], x[0]);
    }
    static Ints finish(Ints sum, Ints /*start*/) { return sum; }
  };

  struct Int4Dot : Dot {
    static constexpr int32_t kOffset = kNibbleZero;
    static constexpr bool kTakesHighNibbles = true;
  };

  struct Int4NlDot : Dot {
    static constexpr int32_t kOffset = kInt4NlLargest;
  };

  // Weights become unsigned bytes by adding 128.
  struct Int8Dot : Dot {
    static constexpr int32_t kOffset = 128;
    static Ints add(Ints sum, const Ints (&weights)[kStep], const Ints (&x)[kStep]) {
      const Ints offset = _mm256_set1_epi8(static_cast<char>(0x80));
      return _mm256_dpbusd_avx_epi32(sum, _mm256_xor_si256(weights[0], offset), x[0]);
    }
  };

  // A bit counts twice.
  template <int kBits>
  struct BitDot : Dot {
    static constexpr int32_t kOffset = 1;
    static constexpr size_t kMostBits = 8;
    static Ints begin(Ints /*start*/) { return _mm256_setzero_si256(); }
    static Ints finish(Ints sum, Ints start) {
      return _mm256_add_epi32(kBits == 1 ? _mm256_slli_epi32(sum, 1) : sum, start);
    }
    static Ints finish(Ints even, Ints odd, size_t shift, Ints start) {
      const Ints both = _mm256_add_epi32(even, _mm256_srai_epi32(odd, kBits));
      return finish(_mm256_sra_epi32(both, count_of(shift)), start);
    }
  };

  static Ints high_nibbles_in_place(Ints v) {
    return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(0xf0)));
  }
  using EightLanes::add;
  static Ints shift_right_4(Ints v) { return _mm256_srai_epi32(v, 4); }
  static Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
};

}  // namespace

void fill_linear_avxvnni(Kernels* table) { TileKernels<Part>::fill_integer(table); }

}  // namespace cria
