// Quantized vectors for processors with AVX-512 VNNI: activations, and attention over the caches of
// int8 and of 4-bit values. Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/value_codes.h"
#include "runtime/kernels/x86/kernels_avx512vnni.h"

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512VNNI__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

namespace cria {
namespace {

constexpr size_t kLanes = 16;
constexpr uint32_t kMagnitudeMask = 0x7fffffff;
constexpr uint32_t kInfinityBits = 0x7f800000;
constexpr float kLargestCode = 127.0f;
constexpr float kRoundMagic = 0x1.8p23f;
constexpr int kNibbleBits = 4;
constexpr int32_t kKeyOffset = 128;  // keys go to vpdpbusd as unsigned bytes

__mmask16 lanes_of(size_t n) { return static_cast<__mmask16>(n < kLanes ? (1u << n) - 1 : 0xffff); }

__mmask64 bytes_of(size_t n) { return n < 64 ? (uint64_t{1} << n) - 1 : ~uint64_t{0}; }

// Largest |x| as bits; NaN comes out largest.
uint32_t largest_magnitude(const float* x, size_t n) {
  const __m512i magnitude = _mm512_set1_epi32(static_cast<int>(kMagnitudeMask));
  __m512i largest = _mm512_setzero_si512();
  for (size_t i = 0; i < n; i += kLanes) {
    const __m512i value = _mm512_maskz_loadu_epi32(lanes_of(n - i), x + i);
    largest = _mm512_max_epu32(largest, _mm512_and_si512(value, magnitude));
  }
  return _mm512_reduce_max_epu32(largest);
}

// Writes the codes of n values, then zeros up to n_padded; returns the sum of the codes.
int32_t write_codes(const float* x, size_t n, size_t n_padded, float inverse, int8_t* codes) {
  const __m512 factor = _mm512_set1_ps(inverse);
  const __m512 magic = _mm512_set1_ps(kRoundMagic);
  __m512i sum = _mm512_setzero_si512();
  for (size_t i = 0; i < n_padded; i += kLanes) {
    const __m512 value = _mm512_maskz_loadu_ps(i < n ? lanes_of(n - i) : __mmask16{0}, x + i);
    const __m512 rounded = _mm512_sub_ps(_mm512_add_ps(_mm512_mul_ps(value, factor), magic), magic);
    const __m512i code = _mm512_cvttps_epi32(rounded);
    sum = _mm512_add_epi32(sum, code);
    _mm_mask_storeu_epi8(codes + i, lanes_of(n_padded - i), _mm512_cvtepi32_epi8(code));
  }
  return _mm512_reduce_add_epi32(sum);
}

void write_zeros(size_t n, int8_t* codes) {
  for (size_t i = 0; i < n; i += 64) {
    _mm512_mask_storeu_epi8(codes + i, bytes_of(n - i), _mm512_setzero_si512());
  }
}

// Interleaves and adds, so that in each quarter lane i has the sum of that quarter of v[i].
__m512i add_quarters(const __m512i* v) {
  const __m512i ab =
      _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i cd =
      _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

// Adds the halves' quarters of eight vectors given as two add_quarters: quarters come out as
// low half of 0..3, high half of 0..3, low half of 4..7, high half of 4..7.
__m512i add_halves(__m512i first4, __m512i last4) {
  return _mm512_add_epi32(_mm512_shuffle_i32x4(first4, last4, _MM_SHUFFLE(2, 0, 2, 0)),
                          _mm512_shuffle_i32x4(first4, last4, _MM_SHUFFLE(3, 1, 3, 1)));
}

// Integer dot products of 64 query codes with those of 16 keys: the first and last 32 apart.
struct Dots {
  __m512i first;
  __m512i last;
};

// Loads of bytes by a mask take several times as long as others on Zen 5, so what is whole is
// loaded without one: all that p[0..n) has up to 64 codes, kCodes of them when that is not 0; zeros
// behind.
template <size_t kCodes>
__m512i load_codes(const int8_t* p, size_t n) {
  if constexpr (kCodes == 64) return _mm512_loadu_si512(p);
  if constexpr (kCodes == 32) {
    return _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  return _mm512_maskz_loadu_epi8(bytes_of(n), p);
}

// The bytes of mask, zeros elsewhere.
__m128i load_16(const void* p, __mmask16 mask, bool is_whole) {
  return is_whole ? _mm_loadu_si128(static_cast<const __m128i*>(p)) : _mm_maskz_loadu_epi8(mask, p);
}

// keys: the address of key j's codes is keys + min(j, n - 1) * stride; there are n_codes.
template <size_t kCodes>
Dots dot_keys(__m512i q, const int8_t* keys, size_t stride, size_t n, size_t n_codes) {
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512i quarters[4];
  for (size_t i = 0; i < 4; ++i) {
    __m512i dots[4];
    for (size_t k = 0; k < 4; ++k) {
      const size_t j = i * 4 + k;
      const __m512i key = load_codes<kCodes>(keys + (j < n ? j : n - 1) * stride, n_codes);
      dots[k] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_xor_si512(key, offset), q);
    }
    quarters[i] = add_quarters(dots);
  }
  const __m512i a = add_halves(quarters[0], quarters[1]);
  const __m512i b = add_halves(quarters[2], quarters[3]);
  return {_mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(2, 0, 2, 0)),
          _mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(3, 1, 3, 1))};
}

// What the offset of the keys adds to the dots of the first and the last 32 query codes.
Dots offset_dots(__m512i q) {
  const __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), q);
  const int32_t first = _mm512_mask_reduce_add_epi32(0x00ff, sums);
  const int32_t last = _mm512_mask_reduce_add_epi32(0xff00, sums);
  return {_mm512_set1_epi32(first * kKeyOffset), _mm512_set1_epi32(last * kKeyOffset)};
}

__m512 add_group(__m512 sum, __m512i dot, __m512i offset, float scale) {
  const __m512 value = _mm512_cvtepi32_ps(_mm512_sub_epi32(dot, offset));
  return _mm512_add_ps(sum, _mm512_mul_ps(value, _mm512_set1_ps(scale)));
}

// kParts times 16 columns of out over all positions, or one part of fewer.
template <size_t kParts>
void weighted_columns(const float* weights, const int8_t* values, const float* value_scales,
                      size_t n, size_t head_dim, size_t count, float rescale, float* out) {
  const __mmask16 mask = lanes_of(count);
  const bool is_whole = kParts > 1 || count >= kLanes;
  __m512 sum[kParts];
#pragma GCC unroll 4
  for (size_t i = 0; i < kParts; ++i) {
    const __m512 before = _mm512_maskz_loadu_ps(mask, out + i * kLanes);
    sum[i] = _mm512_mul_ps(before, _mm512_set1_ps(rescale));
  }
  for (size_t j = 0; j < n; ++j) {
    const __m512 weight = _mm512_set1_ps(weights[j] * value_scales[j]);
#pragma GCC unroll 4
    for (size_t i = 0; i < kParts; ++i) {
      const int8_t* value = values + j * head_dim + i * kLanes;
      const __m512i wide = _mm512_cvtepi8_epi32(load_16(value, mask, is_whole));
      sum[i] = _mm512_add_ps(sum[i], _mm512_mul_ps(weight, _mm512_cvtepi32_ps(wide)));
    }
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < kParts; ++i) _mm512_mask_storeu_ps(out + i * kLanes, mask, sum[i]);
}

// kGroups whole groups of the head at once, so that their sums hide each other's latency, or one
// that may be shorter.
template <size_t kGroups>
void weighted_groups(const float* weights, const uint8_t* values, const uint16_t* value_scales,
                     size_t n, size_t head_dim, size_t count, float rescale, float* out) {
  // A lane's lowest four bits choose the float.
  const __m512 floats_of_nibbles =
      _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  const size_t half = value_bytes(count);
  const __mmask16 low_mask = lanes_of(half);
  const __mmask16 high_mask = lanes_of(count - half);
  const bool is_whole = kGroups > 1 || half == kValueHalf;
  const size_t row_bytes = value_bytes(head_dim);
  const size_t n_groups = value_groups(head_dim);
  const __m512 factor = _mm512_set1_ps(rescale);
  __m512 low_sum[kGroups];
  __m512 high_sum[kGroups];
#pragma GCC unroll 2
  for (size_t g = 0; g < kGroups; ++g) {
    float* const low = out + g * kValueGroup;
    low_sum[g] = _mm512_mul_ps(_mm512_maskz_loadu_ps(low_mask, low), factor);
    high_sum[g] = _mm512_mul_ps(_mm512_maskz_loadu_ps(high_mask, low + half), factor);
  }
  for (size_t j = 0; j < n; ++j, values += row_bytes, value_scales += n_groups) {
#pragma GCC unroll 2
    for (size_t g = 0; g < kGroups; ++g) {
      const __m512 weight = _mm512_set1_ps(weights[j] * value_scale_at(value_scales, g));
      const __m512i pairs =
          _mm512_cvtepu8_epi32(load_16(values + g * kValueHalf, low_mask, is_whole));
      const __m512 low = _mm512_permutexvar_ps(pairs, floats_of_nibbles);
      const __m512 high =
          _mm512_permutexvar_ps(_mm512_srli_epi32(pairs, kNibbleBits), floats_of_nibbles);
      low_sum[g] = _mm512_add_ps(low_sum[g], _mm512_mul_ps(weight, low));
      high_sum[g] = _mm512_add_ps(high_sum[g], _mm512_mul_ps(weight, high));
    }
  }
#pragma GCC unroll 2
  for (size_t g = 0; g < kGroups; ++g) {
    float* const low = out + g * kValueGroup;
    _mm512_mask_storeu_ps(low, low_mask, low_sum[g]);
    _mm512_mask_storeu_ps(low + half, high_mask, high_sum[g]);
  }
}

}  // namespace

void quantize_row_avx512vnni(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                             float* scales, int32_t* sums) {
  for (size_t begin = 0; begin < n_padded; begin += group) {
    const size_t left = begin < n ? n - begin : 0;
    const size_t count = left < group ? left : group;
    const uint32_t bits = largest_magnitude(x + begin, count);
    float largest;
    __builtin_memcpy(&largest, &bits, sizeof largest);
    const bool is_zero = bits >= kInfinityBits || largest < kSmallestActivation;
    scales[begin / group] = is_zero ? 0.0f : largest / kLargestCode;
    int32_t sum = 0;
    if (is_zero) {
      write_zeros(group, codes + begin);
    } else {
      sum = write_codes(x + begin, count, group, kLargestCode / largest, codes + begin);
    }
    if (sums != nullptr) sums[begin / group] = sum;
  }
}

void quantize_values_avx512vnni(const float* x, size_t n, uint8_t* codes, uint16_t* scales) {
  const __m512i magnitude = _mm512_set1_epi32(static_cast<int>(kMagnitudeMask));
  const __m512 magic = _mm512_set1_ps(kRoundMagic);
  for (size_t begin = 0; begin < n; begin += kValueGroup) {
    const size_t count = value_group_size(n, begin);
    const size_t half = value_bytes(count);
    const __m512i low = _mm512_maskz_loadu_epi32(lanes_of(half), x + begin);
    const __m512i high = _mm512_maskz_loadu_epi32(lanes_of(count - half), x + begin + half);
    const __m512i low_size = _mm512_and_si512(low, magnitude);
    const __m512i high_size = _mm512_and_si512(high, magnitude);
    // Those of negative elements alone.
    const __m512i low_below = _mm512_maskz_mov_epi32(_mm512_movepi32_mask(low), low_size);
    const __m512i high_below = _mm512_maskz_mov_epi32(_mm512_movepi32_mask(high), high_size);
    const ValueScale scale =
        find_value_scale(_mm512_reduce_max_epu32(_mm512_max_epu32(low_size, high_size)),
                         _mm512_reduce_max_epu32(_mm512_max_epu32(low_below, high_below)));
    scales[begin / kValueGroup] = scale.bits;
    const __m512 factor = _mm512_set1_ps(scale.inverse);
    const auto nibbles = [&](__m512i value) {
      const __m512 scaled = _mm512_mul_ps(_mm512_castsi512_ps(value), factor);
      const __m512 rounded = _mm512_sub_ps(_mm512_add_ps(scaled, magic), magic);
      const __m512i code =
          _mm512_cvttps_epi32(_mm512_min_ps(rounded, _mm512_set1_ps(kHighestValueCode)));
      return _mm512_add_epi32(scale.bits != 0 ? code : _mm512_setzero_si512(),
                              _mm512_set1_epi32(kNibbleZero));
    };
    const __m512i pairs =
        _mm512_or_si512(nibbles(low), _mm512_slli_epi32(nibbles(high), kNibbleBits));
    _mm_mask_storeu_epi8(codes + begin / 2, lanes_of(half), _mm512_cvtepi32_epi8(pairs));
  }
}

void scores_q8_avx512vnni(const int8_t* q_codes, const float* q_scales, size_t head_dim,
                          const int8_t* keys, const float* key_scales, float multiplier, size_t n,
                          float* scores) {
  for (size_t j = 0; j < n; j += kLanes) {
    __m512 sum = _mm512_setzero_ps();
    for (size_t d = 0; d < head_dim; d += 2 * kActivationGroup) {
      const size_t left = head_dim - d;
      const __m512i q = load_codes<0>(q_codes + d, left);
      const Dots offset = offset_dots(q);
      const int8_t* key = keys + j * head_dim + d;
      const Dots dots = left >= 64   ? dot_keys<64>(q, key, head_dim, n - j, left)
                        : left == 32 ? dot_keys<32>(q, key, head_dim, n - j, left)
                                     : dot_keys<0>(q, key, head_dim, n - j, left);
      const float* scale = q_scales + d / kActivationGroup;
      sum = add_group(sum, dots.first, offset.first, scale[0]);
      if (left > kActivationGroup) sum = add_group(sum, dots.last, offset.last, scale[1]);
    }
    const __mmask16 mask = lanes_of(n - j);
    const __m512 scaled = _mm512_mul_ps(sum, _mm512_maskz_loadu_ps(mask, key_scales + j));
    _mm512_mask_storeu_ps(scores + j, mask, _mm512_mul_ps(scaled, _mm512_set1_ps(multiplier)));
  }
}

void weighted_sum_q8_avx512vnni(const float* weights, const int8_t* values,
                                const float* value_scales, size_t n, size_t head_dim, float rescale,
                                float* out) {
  constexpr size_t kParts = 4;
  size_t d = 0;
  for (; d + kParts * kLanes <= head_dim; d += kParts * kLanes) {
    weighted_columns<kParts>(weights, values + d, value_scales, n, head_dim, kLanes, rescale,
                             out + d);
  }
  for (; d + 2 * kLanes <= head_dim; d += 2 * kLanes) {
    weighted_columns<2>(weights, values + d, value_scales, n, head_dim, kLanes, rescale, out + d);
  }
  for (; d < head_dim; d += kLanes) {
    weighted_columns<1>(weights, values + d, value_scales, n, head_dim, head_dim - d, rescale,
                        out + d);
  }
}

void weighted_sum_q4_avx512vnni(const float* weights, const uint8_t* values,
                                const uint16_t* value_scales, size_t n, size_t head_dim,
                                float rescale, float* out) {
  constexpr size_t kGroups = 2;
  size_t d = 0;
  for (; d + kGroups * kValueGroup <= head_dim; d += kGroups * kValueGroup) {
    weighted_groups<kGroups>(weights, values + d / 2, value_scales + d / kValueGroup, n, head_dim,
                             kValueGroup, rescale, out + d);
  }
  for (; d < head_dim; d += kValueGroup) {
    weighted_groups<1>(weights, values + d / 2, value_scales + d / kValueGroup, n, head_dim,
                       value_group_size(head_dim, d), rescale, out + d);
  }
}

}  // namespace cria
