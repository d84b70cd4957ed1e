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

  struct Int4Dot {
    static Ints add(Ints sum, Ints first, Ints second, Ints x_first, Ints x_second) {
      sum = _mm256_dpbusd_avx_epi32(sum, first, x_first);
      return _mm256_dpbusd_avx_epi32(sum, second, x_second);
    }
    static Ints finish(Ints sum, int32_t x_sum) {
      return _mm256_sub_epi32(sum, _mm256_set1_epi32(kNibbleZero * x_sum));
    }
  };

  struct Int4NlDot : Int4Dot {
    static Ints finish(Ints sum, int32_t x_sum) {
      return _mm256_sub_epi32(sum, _mm256_set1_epi32(kInt4NlLargest * x_sum));
    }
  };

  // Weights become unsigned bytes by adding 128.
  struct Int8Dot {
    static Ints add(Ints sum, Ints first, Ints second, Ints x_first, Ints x_second) {
      const Ints offset = _mm256_set1_epi8(static_cast<char>(0x80));
      sum = _mm256_dpbusd_avx_epi32(sum, _mm256_xor_si256(first, offset), x_first);
      return _mm256_dpbusd_avx_epi32(sum, _mm256_xor_si256(second, offset), x_second);
    }
    static Ints finish(Ints sum, int32_t x_sum) {
      return _mm256_sub_epi32(sum, _mm256_set1_epi32(128 * x_sum));
    }
  };

  static Ints load(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Ints low_nibbles(Ints v) { return _mm256_and_si256(v, _mm256_set1_epi8(0x0f)); }
  static Ints high_nibbles(Ints v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }
  static Ints look_up(Ints nibbles) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(nl_bytes()), nibbles);
  }
  static Ints zero() { return _mm256_setzero_si256(); }
  static Ints broadcast(const int8_t* p, size_t j) {
    int32_t quad;
    __builtin_memcpy(&quad, p + 4 * j, sizeof quad);
    return _mm256_set1_epi32(quad);
  }

  static Floats load_f32(const uint8_t* p) {
    return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Floats load_bf16(const uint8_t* p) {
    const __m128i bf16 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
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
