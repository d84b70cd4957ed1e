// Matrix products for processors with AVX2; tile_kernels.h has the algorithm.
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/tile_kernels.h"

#if !defined(__AVX2__) || !defined(__F16C__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/nl_bytes.h"

namespace cria {
namespace {

struct Part {
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr size_t kRows = 8;

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

  static Ints load(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Ints low_nibbles(Ints v) { return _mm256_and_si256(v, _mm256_set1_epi8(0x0f)); }
  static Ints high_nibbles(Ints v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }
  static Ints look_up(Ints nibbles) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(nl_bytes()), nibbles);
  }
  static Ints all_ints(int32_t x) { return _mm256_set1_epi32(x); }
  static Ints broadcast(const int8_t* p, size_t j) {
    int32_t quad;
    __builtin_memcpy(&quad, p + 4 * j, sizeof quad);
    return _mm256_set1_epi32(quad);
  }

  static __m128i load_halves(const uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static Floats load_f32(const uint8_t* p) {
    return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Floats load_f16(const uint8_t* p) { return _mm256_cvtph_ps(load_halves(p)); }
  static Floats load_bf16(const uint8_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_halves(p)), 16));
  }
  // A value's bits are the upper half of the float's. Quarters go where unpacking by halves wants
  // them.
  static void load_bf16(const uint8_t* p, Floats* first, Floats* second) {
    const Ints quarters = _mm256_permute4x64_epi64(load(p), _MM_SHUFFLE(3, 1, 2, 0));
    const Ints zero = _mm256_setzero_si256();
    *first = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, quarters));
    *second = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, quarters));
  }
  static Floats all(float x) { return _mm256_set1_ps(x); }
  static Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static void store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
};

}  // namespace

void fill_linear_avx2(Kernels* table) {
  TileKernels<Part>::fill_integer(table);
  TileKernels<Part>::fill_float(table);
}

}  // namespace cria
