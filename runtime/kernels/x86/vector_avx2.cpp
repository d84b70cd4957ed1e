// Kernels on vectors for processors with AVX2; lane_kernels.h has the algorithms.
#include "runtime/kernels/lane_kernels.h"
#include "runtime/kernels/lane_states.h"
#include "runtime/kernels/lane_variants.h"
#include "runtime/kernels/overrides.h"

#if !defined(__AVX2__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

namespace cria {
namespace {

// 16 lanes in two registers.
struct Lanes {
  static constexpr size_t kCount = 16;
  static constexpr size_t kSums = 4;

  __m256 low;
  __m256 high;

  static Lanes all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }

  static Lanes load(const float* p, size_t n) {
    if (n >= kCount) return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
    float part[kCount] = {};
    for (size_t i = 0; i < n; ++i) part[i] = p[i];
    return {_mm256_loadu_ps(part), _mm256_loadu_ps(part + 8)};
  }

  template <class Byte>
  static __m128i load_16(const Byte* p, size_t n) {
    if (n >= kCount) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    Byte part[kCount] = {};
    for (size_t i = 0; i < n; ++i) part[i] = p[i];
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(part));
  }
  static Lanes to_floats(__m128i bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  static Lanes load_bytes(const int8_t* p, size_t n) { return to_floats(load_16(p, n)); }

  static void load_nibbles(const uint8_t* p, size_t n, Lanes* low, Lanes* high) {
    const __m128i bytes = load_16(p, n);
    const __m128i nibble = _mm_set1_epi8(0x0f);
    const __m128i zero = _mm_set1_epi8(kNibbleZero);
    *low = to_floats(_mm_sub_epi8(_mm_and_si128(bytes, nibble), zero));
    *high = to_floats(_mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(bytes, 4), nibble), zero));
  }

  static void store(float* p, size_t n, Lanes v) {
    if (n >= kCount) {
      _mm256_storeu_ps(p, v.low);
      _mm256_storeu_ps(p + 8, v.high);
      return;
    }
    float part[kCount];
    _mm256_storeu_ps(part, v.low);
    _mm256_storeu_ps(part + 8, v.high);
    for (size_t i = 0; i < n; ++i) p[i] = part[i];
  }

  static void store_bytes(int8_t* p, size_t n, Lanes ints) {
    const __m256i low = _mm256_castps_si256(ints.low);
    const __m256i high = _mm256_castps_si256(ints.high);
    // Packing works within halves of the registers, so the 64-bit quarters come out as 0 2 1 3.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    if (n >= kCount) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
    int8_t part[kCount];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(part), bytes);
    for (size_t i = 0; i < n; ++i) p[i] = part[i];
  }

  friend Lanes operator+(Lanes a, Lanes b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  friend Lanes operator-(Lanes a, Lanes b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  friend Lanes operator*(Lanes a, Lanes b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  friend Lanes operator/(Lanes a, Lanes b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }

  static Lanes lesser(Lanes a, Lanes b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }

  static Lanes negative(Lanes a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
  }

  static Lanes first(Lanes v, size_t n) {
    if (n >= kCount) return v;
    const __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i end = _mm256_set1_epi32(static_cast<int>(n));
    const __m256i high_place = _mm256_add_epi32(place, _mm256_set1_epi32(8));
    return {_mm256_and_ps(v.low, _mm256_castsi256_ps(_mm256_cmpgt_epi32(end, place))),
            _mm256_and_ps(v.high, _mm256_castsi256_ps(_mm256_cmpgt_epi32(end, high_place)))};
  }

  static Lanes zero_below(Lanes x, Lanes limit, Lanes v) {
    return {_mm256_andnot_ps(_mm256_cmp_ps(x.low, limit.low, _CMP_LT_OQ), v.low),
            _mm256_andnot_ps(_mm256_cmp_ps(x.high, limit.high, _CMP_LT_OQ), v.high)};
  }

  static __m256 power_of(__m256 shifted) {
    // bits(shifted) - bits(magic) + 127 is the exponent field.
    const __m256i bias = _mm256_set1_epi32(127 - __builtin_bit_cast(int, kExpRoundMagic));
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(shifted), bias), 23));
  }
  static Lanes power(Lanes shifted) { return {power_of(shifted.low), power_of(shifted.high)}; }

  static float sum(Lanes v) {
    const __m256 by8 = _mm256_add_ps(v.low, v.high);
    const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
  }

  static __m256 larger_of(__m256 a, __m256 x) {
    const __m256i magnitude =
        _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), magnitude));
  }
  static Lanes larger_magnitude(Lanes a, Lanes x) {
    return {larger_of(a.low, x.low), larger_of(a.high, x.high)};
  }

  static uint32_t largest(Lanes a) {
    const __m256i by8 = _mm256_max_epi32(_mm256_castps_si256(a.low), _mm256_castps_si256(a.high));
    __m128i v = _mm_max_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(v));
  }

  static Lanes to_ints(Lanes v) {
    return {_mm256_castsi256_ps(_mm256_cvttps_epi32(v.low)),
            _mm256_castsi256_ps(_mm256_cvttps_epi32(v.high))};
  }

  static __m256 add_as_ints(__m256 a, __m256 b) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  static Lanes add_ints(Lanes a, Lanes b) {
    return {add_as_ints(a.low, b.low), add_as_ints(a.high, b.high)};
  }

  static int32_t sum_ints(Lanes a) {
    const __m256i by8 = _mm256_castps_si256(add_as_ints(a.low, a.high));
    __m128i v = _mm_add_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return _mm_cvtsi128_si32(v);
  }

  static float root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
};

}  // namespace

void fill_vector_avx2(Kernels* table) {
  LaneKernels<Lanes>::fill(table);
  LaneVariants<Lanes>::fill(table);
  LaneStates<Lanes>::fill(table);
}

}  // namespace cria
