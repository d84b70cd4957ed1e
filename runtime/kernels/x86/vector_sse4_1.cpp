// Kernels on vectors for processors with SSE4.1; lane_kernels.h has the algorithms.
#include "runtime/kernels/lane_kernels.h"
#include "runtime/kernels/lane_states.h"
#include "runtime/kernels/lane_variants.h"
#include "runtime/kernels/overrides.h"

#if !defined(__SSE4_1__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

namespace cria {
namespace {

constexpr size_t kParts = 4;

__m128i as_ints(__m128 v) { return _mm_castps_si128(v); }
__m128 as_floats(__m128i v) { return _mm_castsi128_ps(v); }

// 16 lanes in four registers.
struct Lanes {
  static constexpr size_t kCount = 16;
  static constexpr size_t kSums = 2;

  __m128 part[kParts];

  // f of each part, or of each pair of parts.
  template <class F>
  static Lanes map(F f, Lanes a) {
    return {{f(a.part[0]), f(a.part[1]), f(a.part[2]), f(a.part[3])}};
  }
  template <class F>
  static Lanes map(F f, Lanes a, Lanes b) {
    return {{f(a.part[0], b.part[0]), f(a.part[1], b.part[1]), f(a.part[2], b.part[2]),
             f(a.part[3], b.part[3])}};
  }

  static Lanes all(float x) {
    const __m128 v = _mm_set1_ps(x);
    return {{v, v, v, v}};
  }

  static Lanes load_all(const float* p) {
    return {{_mm_loadu_ps(p), _mm_loadu_ps(p + 4), _mm_loadu_ps(p + 8), _mm_loadu_ps(p + 12)}};
  }
  static Lanes load(const float* p, size_t n) {
    if (n >= kCount) return load_all(p);
    float some[kCount] = {};
    for (size_t i = 0; i < n; ++i) some[i] = p[i];
    return load_all(some);
  }

  template <class Byte>
  static __m128i load_16(const Byte* p, size_t n) {
    if (n >= kCount) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    Byte some[kCount] = {};
    for (size_t i = 0; i < n; ++i) some[i] = p[i];
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(some));
  }
  static Lanes to_floats(__m128i bytes) {
    return {{_mm_cvtepi32_ps(_mm_cvtepi8_epi32(bytes)),
             _mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_srli_si128(bytes, 4))),
             _mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_srli_si128(bytes, 8))),
             _mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_srli_si128(bytes, 12)))}};
  }
  static Lanes load_bytes(const int8_t* p, size_t n) { return to_floats(load_16(p, n)); }

  static void load_nibbles(const uint8_t* p, size_t n, Lanes* low, Lanes* high) {
    const __m128i bytes = load_16(p, n);
    const __m128i nibble = _mm_set1_epi8(0x0f);
    const __m128i zero = _mm_set1_epi8(kNibbleZero);
    *low = to_floats(_mm_sub_epi8(_mm_and_si128(bytes, nibble), zero));
    *high = to_floats(_mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(bytes, 4), nibble), zero));
  }

  static void store_all(float* p, Lanes v) {
    for (size_t i = 0; i < kParts; ++i) _mm_storeu_ps(p + 4 * i, v.part[i]);
  }
  static void store(float* p, size_t n, Lanes v) {
    if (n >= kCount) return store_all(p, v);
    float some[kCount];
    store_all(some, v);
    for (size_t i = 0; i < n; ++i) p[i] = some[i];
  }

  static void store_bytes(int8_t* p, size_t n, Lanes ints) {
    const __m128i low = _mm_packs_epi32(as_ints(ints.part[0]), as_ints(ints.part[1]));
    const __m128i high = _mm_packs_epi32(as_ints(ints.part[2]), as_ints(ints.part[3]));
    const __m128i bytes = _mm_packs_epi16(low, high);
    if (n >= kCount) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
    int8_t some[kCount];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(some), bytes);
    for (size_t i = 0; i < n; ++i) p[i] = some[i];
  }

  friend Lanes operator+(Lanes a, Lanes b) {
    return map([](__m128 x, __m128 y) { return _mm_add_ps(x, y); }, a, b);
  }
  friend Lanes operator-(Lanes a, Lanes b) {
    return map([](__m128 x, __m128 y) { return _mm_sub_ps(x, y); }, a, b);
  }
  friend Lanes operator*(Lanes a, Lanes b) {
    return map([](__m128 x, __m128 y) { return _mm_mul_ps(x, y); }, a, b);
  }
  friend Lanes operator/(Lanes a, Lanes b) {
    return map([](__m128 x, __m128 y) { return _mm_div_ps(x, y); }, a, b);
  }

  static Lanes lesser(Lanes a, Lanes b) {
    return map([](__m128 x, __m128 y) { return _mm_min_ps(x, y); }, a, b);
  }

  static Lanes negative(Lanes a) {
    return map([](__m128 x) { return _mm_xor_ps(x, _mm_set1_ps(-0.0f)); }, a);
  }

  static Lanes first(Lanes v, size_t n) {
    if (n >= kCount) return v;
    const __m128i end = _mm_set1_epi32(static_cast<int>(n));
    __m128i place = _mm_setr_epi32(0, 1, 2, 3);
    for (size_t i = 0; i < kParts; ++i) {
      v.part[i] = _mm_and_ps(v.part[i], as_floats(_mm_cmpgt_epi32(end, place)));
      place = _mm_add_epi32(place, _mm_set1_epi32(4));
    }
    return v;
  }

  static Lanes zero_below(Lanes x, Lanes limit, Lanes v) {
    const Lanes is_below = map([](__m128 a, __m128 b) { return _mm_cmplt_ps(a, b); }, x, limit);
    return map([](__m128 mask, __m128 value) { return _mm_andnot_ps(mask, value); }, is_below, v);
  }

  static Lanes power(Lanes shifted) {
    return map(
        [](__m128 x) {
          // bits(shifted) - bits(magic) + 127 is the exponent field.
          const __m128i bias = _mm_set1_epi32(127 - __builtin_bit_cast(int, kExpRoundMagic));
          return as_floats(_mm_slli_epi32(_mm_add_epi32(as_ints(x), bias), 23));
        },
        shifted);
  }

  static float sum(Lanes v) {
    const __m128 low = _mm_add_ps(v.part[0], v.part[2]);
    const __m128 high = _mm_add_ps(v.part[1], v.part[3]);
    const __m128 by4 = _mm_add_ps(low, high);
    const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
  }

  static Lanes larger_magnitude(Lanes a, Lanes x) {
    return map(
        [](__m128 largest, __m128 value) {
          const __m128i magnitude = _mm_and_si128(as_ints(value), _mm_set1_epi32(0x7fffffff));
          return as_floats(_mm_max_epi32(as_ints(largest), magnitude));
        },
        a, x);
  }

  static uint32_t largest(Lanes a) {
    const __m128i low = _mm_max_epi32(as_ints(a.part[0]), as_ints(a.part[2]));
    const __m128i high = _mm_max_epi32(as_ints(a.part[1]), as_ints(a.part[3]));
    __m128i v = _mm_max_epi32(low, high);
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(v));
  }

  static Lanes to_ints(Lanes v) {
    return map([](__m128 x) { return as_floats(_mm_cvttps_epi32(x)); }, v);
  }

  static Lanes add_ints(Lanes a, Lanes b) {
    return map([](__m128 x, __m128 y) { return as_floats(_mm_add_epi32(as_ints(x), as_ints(y))); },
               a, b);
  }

  static int32_t sum_ints(Lanes a) {
    const __m128i low = _mm_add_epi32(as_ints(a.part[0]), as_ints(a.part[2]));
    const __m128i high = _mm_add_epi32(as_ints(a.part[1]), as_ints(a.part[3]));
    __m128i v = _mm_add_epi32(low, high);
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return _mm_cvtsi128_si32(v);
  }

  static float root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
};

}  // namespace

void fill_vector_sse4_1(Kernels* table) {
  LaneKernels<Lanes>::fill(table);
  LaneVariants<Lanes>::fill(table);
  LaneStates<Lanes>::fill(table);
}

}  // namespace cria
