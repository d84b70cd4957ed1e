// Matrix products for processors with AVX2; tile_kernels.h has the algorithm.
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/tile_kernels.h"

#if !defined(__AVX2__) || !defined(__F16C__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/lanes_avx2.h"

namespace cria {
namespace {

struct Part : EightLanes {
  static constexpr size_t kRows = 8;
  static constexpr bool kFetchesAtPages = false;
  static constexpr size_t kFetchAhead = kFetchNear;

  static Ints add_pairs(Ints words) { return _mm256_madd_epi16(words, _mm256_set1_epi16(1)); }

  // A sum made here: compilers would put sums off to the group's end, its products in memory.
  static Ints made(Ints sum) {
    asm("" : "+x"(sum));
    return sum;
  }

  // Unsigned times signed bytes give sums of two in 16 bits: 8 quads of 2 * 15 * 127 stay below
  // 2^15, so a group is widened once.
  struct Int4Dot {
    static constexpr size_t kRows = 6;
    static constexpr size_t kStep = 1;
    static constexpr int32_t kOffset = kNibbleZero;
    static constexpr bool kTakesHighNibbles = false;
    static Ints begin(Ints /*start*/) { return _mm256_setzero_si256(); }
    static Ints add(Ints sum, const Ints (&weights)[kStep], const Ints (&x)[kStep]) {
      return made(_mm256_add_epi16(sum, _mm256_maddubs_epi16(weights[0], x[0])));
    }
    static Ints finish(Ints sum, Ints start) { return _mm256_add_epi32(add_pairs(sum), start); }
  };

  // As int4's, of codes that are smaller: in place they stay below 2^4.
  template <int kBits>
  struct BitDot {
    static constexpr size_t kRows = 6;
    static constexpr size_t kStep = 1;
    static constexpr int32_t kOffset = 1;
    static constexpr size_t kMostBits = 4;
    static Ints begin(Ints /*start*/) { return _mm256_setzero_si256(); }
    static Ints add(Ints sum, const Ints (&weights)[kStep], const Ints (&x)[kStep]) {
      return Int4Dot::add(sum, weights, x);
    }
    // A bit counts twice.
    static Ints finish(Ints sum, Ints start) {
      return _mm256_add_epi32(_mm256_madd_epi16(sum, _mm256_set1_epi16(kBits == 1 ? 2 : 1)), start);
    }
    static Ints finish(Ints even, Ints odd, size_t shift, Ints start) {
      const Ints words = _mm256_add_epi16(even, _mm256_srai_epi16(odd, kBits));
      return finish(_mm256_sra_epi16(words, count_of(shift)), start);
    }
  };

  // Two quads of 2 * 64 * 127 stay below 2^15.
  struct Int4NlDot {
    static constexpr size_t kRows = 4;
    static constexpr size_t kStep = 2;
    static constexpr int32_t kOffset = kInt4NlLargest;
    static Ints begin(Ints start) { return start; }
    static Ints add(Ints sum, const Ints (&weights)[kStep], const Ints (&x)[kStep]) {
      const Ints words = _mm256_add_epi16(_mm256_maddubs_epi16(weights[0], x[0]),
                                          _mm256_maddubs_epi16(weights[1], x[1]));
      return made(_mm256_add_epi32(sum, add_pairs(words)));
    }
    static Ints finish(Ints sum, Ints /*start*/) { return sum; }
  };

  // |w| times x with w's sign: two products of 127 * 127 just fit.
  struct Int8Dot {
    static constexpr size_t kRows = 4;
    static constexpr size_t kStep = 1;
    static constexpr int32_t kOffset = 0;
    static Ints begin(Ints start) { return start; }
    static Ints add(Ints sum, const Ints (&weights)[kStep], const Ints (&x)[kStep]) {
      const Ints words =
          _mm256_maddubs_epi16(_mm256_abs_epi8(weights[0]), _mm256_sign_epi8(x[0], weights[0]));
      return made(_mm256_add_epi32(sum, add_pairs(words)));
    }
    static Ints finish(Ints sum, Ints /*start*/) { return sum; }
  };

  using EightLanes::load_bf16;
  static Floats load_bf16(const uint8_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_halves(p)), 16));
  }
};

}  // namespace

void fill_linear_avx2(Kernels* table) {
  TileKernels<Part>::fill_integer(table);
  TileKernels<Part>::fill_float(table);
}

}  // namespace cria
