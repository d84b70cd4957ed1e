// Matrix products for processors with SSE4.1; tile_kernels.h has the algorithm.
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/tile_kernels.h"

#if !defined(__SSE4_1__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/lanes_sse4_1.h"
#include "runtime/kernels/x86/nl_bytes.h"

namespace cria {
namespace {

struct Part : FourLanes {
  static constexpr size_t kRows = 4;
  static constexpr bool kFetchesAtPages = false;
  static constexpr size_t kFetchAhead = kFetchFar;

  static Ints add_pairs(Ints words) { return _mm_madd_epi16(words, _mm_set1_epi16(1)); }

  // A sum made here: compilers would put sums off to the group's end, its products in memory.
  static Ints made(Ints sum) {
    asm("" : "+x"(sum));
    return sum;
  }

  // Unsigned times signed bytes give sums of two in 16 bits: 8 quads of 2 * 15 * 127 stay below
  // 2^15, so a group is widened once.
  struct Int4Dot {
    static constexpr size_t kRows = 4;
    static constexpr size_t kStep = 1;
    static constexpr int32_t kOffset = kNibbleZero;
    static constexpr bool kTakesHighNibbles = false;
    static Ints begin(Ints /*start*/) { return _mm_setzero_si128(); }
    static Ints add(Ints sum, const Ints (&weights)[kStep], const Ints (&x)[kStep]) {
      return made(_mm_add_epi16(sum, _mm_maddubs_epi16(weights[0], x[0])));
    }
    static Ints finish(Ints sum, Ints start) { return _mm_add_epi32(add_pairs(sum), start); }
  };

  // As int4's, of codes that are smaller: in place they stay below 2^4.
  template <int kBits>
  struct BitDot {
    static constexpr size_t kRows = 4;
    static constexpr size_t kStep = 1;
    static constexpr int32_t kOffset = 1;
    static constexpr size_t kMostBits = 4;
    static Ints begin(Ints /*start*/) { return _mm_setzero_si128(); }
    static Ints add(Ints sum, const Ints (&weights)[kStep], const Ints (&x)[kStep]) {
      return Int4Dot::add(sum, weights, x);
    }
    // A bit counts twice.
    static Ints finish(Ints sum, Ints start) {
      return _mm_add_epi32(_mm_madd_epi16(sum, _mm_set1_epi16(kBits == 1 ? 2 : 1)), start);
    }
    static Ints finish(Ints even, Ints odd, size_t shift, Ints start) {
      const Ints words = _mm_add_epi16(even, _mm_srai_epi16(odd, kBits));
      return finish(_mm_sra_epi16(words, count_of(shift)), start);
    }
  };

  static __m128i count_of(size_t n) { return _mm_cvtsi32_si128(static_cast<int>(n)); }
  static Ints all_bytes(int byte) { return _mm_set1_epi8(static_cast<char>(byte)); }
  static Ints and_bytes(Ints v, Ints mask) { return _mm_and_si128(v, mask); }
  static Ints shift_bits(Ints v, size_t n) { return _mm_srl_epi16(v, count_of(n)); }

  // Two quads of 2 * 64 * 127 stay below 2^15.
  struct Int4NlDot {
    static constexpr size_t kRows = 4;
    static constexpr size_t kStep = 2;
    static constexpr int32_t kOffset = kInt4NlLargest;
    static Ints begin(Ints start) { return start; }
    static Ints add(Ints sum, const Ints (&weights)[kStep], const Ints (&x)[kStep]) {
      const Ints words =
          _mm_add_epi16(_mm_maddubs_epi16(weights[0], x[0]), _mm_maddubs_epi16(weights[1], x[1]));
      return made(_mm_add_epi32(sum, add_pairs(words)));
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
          _mm_maddubs_epi16(_mm_abs_epi8(weights[0]), _mm_sign_epi8(x[0], weights[0]));
      return made(_mm_add_epi32(sum, add_pairs(words)));
    }
    static Ints finish(Ints sum, Ints /*start*/) { return sum; }
  };

  static Ints low_nibbles(Ints v) { return _mm_and_si128(v, _mm_set1_epi8(0x0f)); }
  static Ints high_nibbles(Ints v) { return low_nibbles(_mm_srli_epi16(v, 4)); }
  static Ints look_up(Ints nibbles) { return _mm_shuffle_epi8(nl_bytes(), nibbles); }
  static Ints all_ints(int32_t x) { return _mm_set1_epi32(x); }
  // The instruction takes its choice as a constant.
  static Ints broadcast(const int8_t* p, size_t j) {
    const Ints quads = load(p);
    switch (j) {
      case 0:
        return _mm_shuffle_epi32(quads, 0x00);
      case 1:
        return _mm_shuffle_epi32(quads, 0x55);
      case 2:
        return _mm_shuffle_epi32(quads, 0xaa);
      default:
        return _mm_shuffle_epi32(quads, 0xff);
    }
  }

  // Four 16-bit values, widened.
  static Ints load_halves(const uint8_t* p) {
    return _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static Floats load_f32(const uint8_t* p) { return _mm_castsi128_ps(load(p)); }
  static Floats load_bf16(const uint8_t* p) {
    return _mm_castsi128_ps(_mm_slli_epi32(load_halves(p), 16));
  }

  static void load_bf16(const uint8_t* p, Floats* first, Floats* second) {
    const Ints zero = _mm_setzero_si128();
    *first = _mm_castsi128_ps(_mm_unpacklo_epi16(zero, load(p)));
    *second = _mm_castsi128_ps(_mm_unpackhi_epi16(zero, load(p)));
  }

  // There is no conversion from f16 below F16C: the fraction moves to its place and the exponent
  // gets its bias; infinities and NaN get the largest exponent; a subnormal, with the exponent of
  // 2^-14 in front, is exact after 2^-14 is taken away.
  static Floats load_f16(const uint8_t* p) {
    const Ints bits = load_halves(p);
    const Ints sign = _mm_slli_epi32(_mm_and_si128(bits, _mm_set1_epi32(0x8000)), 16);
    const Ints magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fff));
    const Ints moved = _mm_slli_epi32(magnitude, 13);
    const Ints normal = _mm_add_epi32(moved, _mm_set1_epi32(112 << 23));
    const Ints special = _mm_or_si128(moved, _mm_set1_epi32(0x7f800000));
    const Ints lowest = _mm_set1_epi32(113 << 23);
    const Floats small =
        _mm_sub_ps(_mm_castsi128_ps(_mm_add_epi32(moved, lowest)), _mm_castsi128_ps(lowest));
    const Ints is_special = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff));
    const Ints is_small = _mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x0400));
    const Ints large = _mm_blendv_epi8(normal, special, is_special);
    const Ints value = _mm_blendv_epi8(large, _mm_castps_si128(small), is_small);
    return _mm_castsi128_ps(_mm_or_si128(value, sign));
  }
};

}  // namespace

void fill_linear_sse4_1(Kernels* table) {
  TileKernels<Part>::fill_integer(table);
  TileKernels<Part>::fill_float(table);
}

}  // namespace cria
