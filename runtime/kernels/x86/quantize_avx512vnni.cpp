// Quantizes activations and 4-bit values for processors with AVX-512 VNNI. Contracts are in
// runtime/kernels/kernels.h.
#include "runtime/kernels/value_codes.h"
#include "runtime/kernels/x86/kernels_avx512vnni.h"

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512VNNI__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/lanes_avx512.h"

namespace cria {
namespace {

constexpr uint32_t kMagnitudeMask = 0x7fffffff;
constexpr uint32_t kInfinityBits = 0x7f800000;
constexpr float kLargestCode = 127.0f;
constexpr float kRoundMagic = 0x1.8p23f;
constexpr int kNibbleBits = 4;

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

// A group of n values, zeros after them.
void quantize_group(const float* x, size_t n, size_t group, int8_t* codes, float* scale,
                    int32_t* sum) {
  const uint32_t bits = largest_magnitude(x, n);
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  const bool is_zero = bits >= kInfinityBits || largest < kSmallestActivation;
  *scale = is_zero ? 0.0f : largest / kLargestCode;
  int32_t total = 0;
  if (is_zero) {
    write_zeros(group, codes);
  } else {
    total = write_codes(x, n, group, kLargestCode / largest, codes);
  }
  if (sum != nullptr) *sum = total;
}

// Sixteen whole groups of activations: a lane has what is reckoned once a group.
constexpr size_t kBlockGroups = kLanes;
constexpr size_t kBlockInputs = kBlockGroups * kActivationGroup;
static_assert(kActivationGroup == 2 * kLanes);

// Largest |x| of each group, as bits.
__m512i largest_magnitudes(const float* x) {
  const __m512i magnitude = _mm512_set1_epi32(static_cast<int>(kMagnitudeMask));
  __m512i quarters[4];
  for (size_t i = 0; i < 4; ++i) {
    __m512i largest[4];
    for (size_t k = 0; k < 4; ++k) {
      const float* const group = x + (i * 4 + k) * kActivationGroup;
      const __m512i first = _mm512_and_si512(_mm512_loadu_si512(group), magnitude);
      const __m512i second = _mm512_and_si512(_mm512_loadu_si512(group + kLanes), magnitude);
      largest[k] = larger_lanes(first, second);
    }
    quarters[i] = merge_quarters(largest, larger_lanes);
  }
  return merge_halves(merge_halves(quarters[0], quarters[1], larger_lanes),
                      merge_halves(quarters[2], quarters[3], larger_lanes), larger_lanes);
}

// Writes a block's codes, given the factor of each group; returns the sum of each.
__m512i write_block_codes(const float* x, __m512 factors, int8_t* codes) {
  const __m512 magic = _mm512_set1_ps(kRoundMagic);
  const __m512i ones = _mm512_set1_epi8(1);
  // Packing leaves four codes of each of four registers side by side.
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i quarters[2];
  for (size_t i = 0; i < 2; ++i) {
    __m512i sums[4];
    for (size_t k = 0; k < 4; ++k) {
      const size_t group = (i * 4 + k) * 2;
      const float* const pair = x + group * kActivationGroup;
      const auto factor = [factors](size_t g) {
        return _mm512_permutexvar_ps(_mm512_set1_epi32(static_cast<int>(g)), factors);
      };
      const auto code = [&](size_t j, __m512 by) {
        const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(pair + j * kLanes), by);
        const __m512 shifted = _mm512_add_ps(scaled, magic);
        return _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(magic));
      };
      const __m512 first = factor(group);
      const __m512 second = factor(group + 1);
      const __m512i packed =
          _mm512_packs_epi16(_mm512_packs_epi32(code(0, first), code(1, first)),
                             _mm512_packs_epi32(code(2, second), code(3, second)));
      const __m512i both = _mm512_permutexvar_epi32(in_order, packed);
      _mm512_storeu_si512(codes + group * kActivationGroup, both);
      sums[k] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, both);
    }
    quarters[i] = merge_quarters(sums, add_lanes);
  }
  // Low halves are even groups, high halves odd ones.
  const __m512i halves = merge_halves(quarters[0], quarters[1], add_lanes);
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), halves);
}

// False, and nothing written, where a group counts as zeros.
bool quantize_block(const float* x, int8_t* codes, float* scales, int32_t* sums) {
  const __m512i bits = largest_magnitudes(x);
  const __m512 largest = _mm512_castsi512_ps(bits);
  const __mmask16 is_zero =
      _mm512_cmpge_epu32_mask(bits, _mm512_set1_epi32(static_cast<int>(kInfinityBits))) |
      _mm512_cmp_ps_mask(largest, _mm512_set1_ps(kSmallestActivation), _CMP_LT_OQ);
  if (is_zero != 0) return false;
  const __m512 largest_code = _mm512_set1_ps(kLargestCode);
  _mm512_storeu_ps(scales, _mm512_div_ps(largest, largest_code));
  const __m512i sum = write_block_codes(x, _mm512_div_ps(largest_code, largest), codes);
  if (sums != nullptr) _mm512_storeu_si512(sums, sum);
  return true;
}

}  // namespace

void quantize_row_avx512vnni(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                             float* scales, int32_t* sums) {
  for (size_t begin = 0, end = 0; begin < n_padded; begin = end) {
    end = n_padded;
    if (group == kActivationGroup && begin + kBlockInputs <= n) {
      end = begin + kBlockInputs;
      const size_t g = begin / group;
      if (quantize_block(x + begin, codes + begin, scales + g, sums == nullptr ? sums : sums + g)) {
        continue;
      }
    }
    for (size_t i = begin; i < end; i += group) {
      const size_t left = i < n ? n - i : 0;
      quantize_group(x + i, left < group ? left : group, group, codes + i, scales + i / group,
                     sums == nullptr ? sums : sums + i / group);
    }
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
    // Only those of negative elements.
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

}  // namespace cria
