// Integer products for processors with AVX-VNNI; tile_kernels.h has the algorithm.
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/tile_kernels.h"

#if !defined(__AVX2__) || !defined(__AVXVNNI__)
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

  static Ints load(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Ints low_nibbles(Ints v) { return _mm256_and_si256(v, _mm256_set1_epi8(0x0f)); }
  static Ints high_nibbles(Ints v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }
  static Ints high_nibbles_in_place(Ints v) {
    return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(0xf0)));
  }
  static Ints look_up(Ints nibbles) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(nl_bytes()), nibbles);
  }
  static Ints all_ints(int32_t x) { return _mm256_set1_epi32(x); }
  static Ints shift_right_4(Ints v) { return _mm256_srai_epi32(v, 4); }
  static Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static Ints broadcast(const int8_t* p, size_t j) {
    int32_t quad;
    __builtin_memcpy(&quad, p + 4 * j, sizeof quad);
    return _mm256_set1_epi32(quad);
  }

  static Floats load_f32(const uint8_t* p) {
    return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
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

void fill_linear_avxvnni(Kernels* table) { TileKernels<Part>::fill_integer(table); }

}  // namespace cria
