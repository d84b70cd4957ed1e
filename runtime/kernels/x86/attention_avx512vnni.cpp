// Attention over the caches of int8 and of 4-bit values for processors with AVX-512 VNNI. Contracts
// are in runtime/kernels/kernels.h.
#include "runtime/kernels/value_codes.h"
#include "runtime/kernels/x86/kernels_avx512vnni.h"

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512VNNI__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/lanes_avx512.h"

namespace cria {
namespace {

constexpr int kNibbleBits = 4;
constexpr int kKeyOffsetBits = 7;  // keys go to vpdpbusd as unsigned bytes, by adding 128

// Integer dot products of 64 query codes with those of 16 keys: the first and last 32 apart.
struct Dots {
  __m512i first;
  __m512i last;
};

// Loads of bytes by a mask take several times as long as others on Zen 5, so what is whole is
// loaded without one: all that p[0..n) has up to 64 codes, kCodes of them when that is not 0; zeros
// after.
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
    quarters[i] = merge_quarters(dots, add_lanes);
  }
  const __m512i a = merge_halves(quarters[0], quarters[1], add_lanes);
  const __m512i b = merge_halves(quarters[2], quarters[3], add_lanes);
  return {_mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(2, 0, 2, 0)),
          _mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(3, 1, 3, 1))};
}

// Adds a group's part to sums; dot is 128 times the query's sum too large, as the keys are.
__m512 add_group(__m512 sum, __m512i dot, int32_t q_sum, float scale) {
  const __m512i offset = _mm512_slli_epi32(_mm512_set1_epi32(q_sum), kKeyOffsetBits);
  const __m512 value = _mm512_cvtepi32_ps(_mm512_sub_epi32(dot, offset));
  return _mm512_add_ps(sum, _mm512_mul_ps(value, _mm512_set1_ps(scale)));
}

// A block's scores of up to 16 keys, for its parts: dims [d, d + 64) at a time. Between two parts
// the sums stand where the scores will.
struct ScoresOf16 {
  __mmask16 mask;
  bool is_first;
  bool is_last;
  __m512 key_scales;
  __m512 multiplier;

  [[nodiscard]] __m512 begin(const float* scores) const {
    return is_first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, scores);
  }
  void end(__m512 sum, float* scores) const {
    const __m512 score = _mm512_mul_ps(_mm512_mul_ps(sum, key_scales), multiplier);
    _mm512_mask_storeu_ps(scores, mask, is_last ? score : sum);
  }
};

// The 16 keys' codes as unsigned bytes: vector i has those of dims 4 * i ... 4 * i + 3, a lane a
// key. keys and the others as for dot_keys.
template <size_t kCodes>
void transpose_keys(const int8_t* keys, size_t stride, size_t n, size_t n_codes, __m512i* quads) {
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512i rows[kLanes];
#pragma GCC unroll 4
  for (size_t i = 0; i < kLanes; i += 4) {
    __m512i key[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) {
      const size_t j = i + k < n ? i + k : n - 1;
      key[k] = _mm512_xor_si512(load_codes<kCodes>(keys + j * stride, n_codes), offset);
    }
    // Now of each quarter q: rows[i + c] has dims 16 * q + 4 * c on of the four keys.
    const __m512i a = _mm512_unpacklo_epi32(key[0], key[1]);
    const __m512i b = _mm512_unpackhi_epi32(key[0], key[1]);
    const __m512i c = _mm512_unpacklo_epi32(key[2], key[3]);
    const __m512i d = _mm512_unpackhi_epi32(key[2], key[3]);
    rows[i] = _mm512_unpacklo_epi64(a, c);
    rows[i + 1] = _mm512_unpackhi_epi64(a, c);
    rows[i + 2] = _mm512_unpacklo_epi64(b, d);
    rows[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
  constexpr int kEven = _MM_SHUFFLE(2, 0, 2, 0);
  constexpr int kOdd = _MM_SHUFFLE(3, 1, 3, 1);
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    const __m512i low_even = _mm512_shuffle_i32x4(rows[i], rows[4 + i], kEven);
    const __m512i low_odd = _mm512_shuffle_i32x4(rows[i], rows[4 + i], kOdd);
    const __m512i high_even = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], kEven);
    const __m512i high_odd = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], kOdd);
    quads[i] = _mm512_shuffle_i32x4(low_even, high_even, kEven);
    quads[4 + i] = _mm512_shuffle_i32x4(low_odd, high_odd, kEven);
    quads[8 + i] = _mm512_shuffle_i32x4(low_even, high_even, kOdd);
    quads[12 + i] = _mm512_shuffle_i32x4(low_odd, high_odd, kOdd);
  }
}

// Scores of a block whose queries go through the same transposed keys; the part has kGroups groups.
template <size_t kGroups>
void score_block(const QuantizedRows& q, size_t n_groups, size_t d, const __m512i* quads,
                 const ScoresOf16& part, float* scores, size_t stride) {
  constexpr size_t kQuads = kActivationGroup / 4;
  // In registers for all queries: stores of scores might change what quads points to.
  __m512i keys[kGroups * kQuads];
#pragma GCC unroll 16
  for (size_t k = 0; k < kGroups * kQuads; ++k) keys[k] = quads[k];
  for (size_t i = 0; i < q.n_rows; ++i, scores += stride) {
    const size_t group = i * n_groups + d / kActivationGroup;
    const int8_t* const codes = q.codes + group * kActivationGroup;
    __m512 sum = part.begin(scores);
#pragma GCC unroll 2
    for (size_t g = 0; g < kGroups; ++g) {
      __m512i dot = _mm512_setzero_si512();
#pragma GCC unroll 8
      for (size_t k = 0; k < kQuads; ++k) {
        int32_t quad;
        __builtin_memcpy(&quad, codes + g * kActivationGroup + 4 * k, sizeof quad);
        dot = _mm512_dpbusd_epi32(dot, keys[g * kQuads + k], _mm512_set1_epi32(quad));
      }
      sum = add_group(sum, dot, q.sums[group + g], q.scales[group + g]);
    }
    part.end(sum, scores);
  }
}

// One query's scores, of as many groups.
template <size_t kCodes>
void score_query(const QuantizedRows& q, size_t d, const int8_t* keys, size_t stride, size_t n,
                 size_t n_codes, const ScoresOf16& part, float* scores) {
  const size_t group = d / kActivationGroup;
  const bool is_whole = n_codes > kActivationGroup;
  const __m512i codes = is_whole ? _mm512_loadu_si512(q.codes + d) : load_codes<32>(q.codes + d, 0);
  const Dots dots = dot_keys<kCodes>(codes, keys, stride, n, n_codes);
  __m512 sum = add_group(part.begin(scores), dots.first, q.sums[group], q.scales[group]);
  if (is_whole) sum = add_group(sum, dots.last, q.sums[group + 1], q.scales[group + 1]);
  part.end(sum, scores);
}

template <size_t kCodes>
void score_part(const QuantizedRows& q, size_t n_groups, size_t d, const int8_t* keys,
                size_t head_dim, size_t n, const ScoresOf16& part, float* scores, size_t stride) {
  const size_t left = head_dim - d;
  if (q.n_rows == 1) return score_query<kCodes>(q, d, keys, head_dim, n, left, part, scores);
  __m512i quads[kLanes];
  transpose_keys<kCodes>(keys, head_dim, n, left, quads);
  if (left > kActivationGroup) {
    score_block<2>(q, n_groups, d, quads, part, scores, stride);
  } else {
    score_block<1>(q, n_groups, d, quads, part, scores, stride);
  }
}

// kParts times 16 columns of a query's out over all positions, or one part of fewer.
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

// A lane's lowest four bits choose the float.
__m512 floats_of_nibbles() {
  return _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
}

// kGroups whole groups of the head at once, so that their sums hide each other's latency, or one
// that may be shorter.
template <size_t kGroups>
void weighted_groups(const float* weights, const uint8_t* values, const uint16_t* value_scales,
                     size_t n, size_t head_dim, size_t count, float rescale, float* out) {
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
      const __m512 low = _mm512_permutexvar_ps(pairs, floats_of_nibbles());
      const __m512 high =
          _mm512_permutexvar_ps(_mm512_srli_epi32(pairs, kNibbleBits), floats_of_nibbles());
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

// Up to 32 columns of a block's values and sums: two vectors that have the same weights. Whole ones
// need no masks.
struct Columns {
  size_t half;  // columns of the first vector
  __mmask16 low_mask;
  __mmask16 high_mask;
};

// n columns, those past half in the second vector.
Columns columns_of(size_t n, size_t half) {
  return {half, lanes_of(n < half ? n : half), lanes_of(n > half ? n - half : 0)};
}

// Int8 values of positions as floats.
struct ByteValues {
  const int8_t* first;
  size_t row_bytes;

  template <bool kIsWhole>
  void load(const Columns& columns, size_t j, __m512* low, __m512* high) const {
    const int8_t* const row = first + j * row_bytes;
    const __m128i low_bytes = load_16(row, columns.low_mask, kIsWhole);
    const __m128i high_bytes = load_16(row + kLanes, columns.high_mask, kIsWhole);
    *low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(low_bytes));
    *high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(high_bytes));
  }
};

// The same for a group of nibbles.
struct NibbleValues {
  const uint8_t* first;
  size_t row_bytes;

  template <bool kIsWhole>
  void load(const Columns& columns, size_t j, __m512* low, __m512* high) const {
    const __m128i bytes = load_16(first + j * row_bytes, columns.low_mask, kIsWhole);
    const __m512i pairs = _mm512_cvtepu8_epi32(bytes);
    *low = _mm512_permutexvar_ps(pairs, floats_of_nibbles());
    *high = _mm512_permutexvar_ps(_mm512_srli_epi32(pairs, kNibbleBits), floats_of_nibbles());
  }
};

// Queries from which on a block is faster than one after another.
constexpr size_t kLeastBlockQ8 = 2;
constexpr size_t kLeastBlockQ4 = 3;
constexpr size_t kBlockQueries = 32;
constexpr size_t kBlockPositions = 64;

// Part of a block: weights times scales.
struct Weighted {
  float weights[kBlockQueries][kBlockPositions];
  size_t n_queries;
  size_t head_dim;
};

// All queries' sums of the columns go on over kPositions, from position j on. The values become
// floats once and stay in registers.
template <size_t kPositions, bool kIsWhole, class Values>
void add_positions(const Weighted& w, const Values& values, const Columns& columns, size_t j,
                   float* out) {
  __m512 low[kPositions];
  __m512 high[kPositions];
#pragma GCC unroll 8
  for (size_t k = 0; k < kPositions; ++k) {
    values.template load<kIsWhole>(columns, j + k, low + k, high + k);
  }
  const __mmask16 low_mask = columns.low_mask;
  const __mmask16 high_mask = columns.high_mask;
  float* high_out = out + columns.half;
  for (size_t i = 0; i < w.n_queries; ++i, out += w.head_dim, high_out += w.head_dim) {
    __m512 low_sum = kIsWhole ? _mm512_loadu_ps(out) : _mm512_maskz_loadu_ps(low_mask, out);
    __m512 high_sum =
        kIsWhole ? _mm512_loadu_ps(high_out) : _mm512_maskz_loadu_ps(high_mask, high_out);
#pragma GCC unroll 8
    for (size_t k = 0; k < kPositions; ++k) {
      const __m512 weight = _mm512_set1_ps(w.weights[i][j + k]);
      low_sum = _mm512_add_ps(low_sum, _mm512_mul_ps(low[k], weight));
      high_sum = _mm512_add_ps(high_sum, _mm512_mul_ps(high[k], weight));
    }
    if constexpr (kIsWhole) {
      _mm512_storeu_ps(out, low_sum);
      _mm512_storeu_ps(high_out, high_sum);
    } else {
      _mm512_mask_storeu_ps(out, low_mask, low_sum);
      _mm512_mask_storeu_ps(high_out, high_mask, high_sum);
    }
  }
}

template <bool kIsWhole, class Values>
void add_columns(const Weighted& w, const Values& values, const Columns& columns, size_t n,
                 float* out) {
  constexpr size_t kPositions = 8;
  size_t j = 0;
  for (; j + kPositions <= n; j += kPositions) {
    add_positions<kPositions, kIsWhole>(w, values, columns, j, out);
  }
  for (; j < n; ++j) add_positions<1, kIsWhole>(w, values, columns, j, out);
}

// w's weights of positions [j, j + n) for queries from i on, times the positions' scales.
template <class Scales>
void scale_weights(const WeightRows& rows, size_t i, size_t j, size_t n, const Scales& scales,
                   Weighted* w) {
  for (size_t k = 0; k < n; k += kLanes) {
    const __mmask16 mask = lanes_of(n - k);
    const __m512 scale = scales(j + k, n - k < kLanes ? n - k : kLanes);
    for (size_t q = 0; q < w->n_queries; ++q) {
      const float* const weights = rows.weights + (i + q) * rows.stride + j + k;
      const __m512 weight = _mm512_maskz_loadu_ps(mask, weights);
      _mm512_storeu_ps(w->weights[q] + k, _mm512_mul_ps(weight, scale));
    }
  }
}

void rescale_sums(const WeightRows& w, size_t head_dim, float* out) {
  for (size_t i = 0; i < w.n_rows; ++i, out += head_dim) {
    if (w.rescale[i] == 1.0f) continue;
    const __m512 factor = _mm512_set1_ps(w.rescale[i]);
    size_t d = 0;
    for (; d + kLanes <= head_dim; d += kLanes) {
      _mm512_storeu_ps(out + d, _mm512_mul_ps(_mm512_loadu_ps(out + d), factor));
    }
    const __mmask16 mask = lanes_of(head_dim - d);
    if (mask == 0) continue;
    const __m512 last = _mm512_maskz_loadu_ps(mask, out + d);
    _mm512_mask_storeu_ps(out + d, mask, _mm512_mul_ps(last, factor));
  }
}

// Calls add(w, i, j, n, out) for parts of a block, the sums rescaled: up to 32 queries from i on
// and up to 64 positions from j on.
template <class Add>
void for_parts(const WeightRows& rows, size_t n, size_t head_dim, float* out, const Add& add) {
  rescale_sums(rows, head_dim, out);
  alignas(64) Weighted w;
  w.head_dim = head_dim;
  for (size_t i = 0; i < rows.n_rows; i += kBlockQueries, out += kBlockQueries * head_dim) {
    w.n_queries = rows.n_rows - i < kBlockQueries ? rows.n_rows - i : kBlockQueries;
    for (size_t j = 0; j < n; j += kBlockPositions) {
      add(&w, i, j, n - j < kBlockPositions ? n - j : kBlockPositions, out);
    }
  }
}

void weighted_block_q8(const WeightRows& rows, const int8_t* values, const float* value_scales,
                       size_t n, size_t head_dim, float* out) {
  const auto scales = [&](size_t j, size_t count) {
    return _mm512_maskz_loadu_ps(lanes_of(count), value_scales + j);
  };
  const auto add = [&](Weighted* w, size_t i, size_t j, size_t count, float* sums) {
    scale_weights(rows, i, j, count, scales, w);
    for (size_t d = 0; d < head_dim; d += 2 * kLanes) {
      const ByteValues part = {values + j * head_dim + d, head_dim};
      const Columns columns = columns_of(head_dim - d, kLanes);
      if (head_dim - d >= 2 * kLanes) {
        add_columns<true>(*w, part, columns, count, sums + d);
      } else {
        add_columns<false>(*w, part, columns, count, sums + d);
      }
    }
  };
  for_parts(rows, n, head_dim, out, add);
}

void weighted_block_q4(const WeightRows& rows, const uint8_t* values, const uint16_t* value_scales,
                       size_t n, size_t head_dim, float* out) {
  const size_t row_bytes = value_bytes(head_dim);
  const size_t n_groups = value_groups(head_dim);
  const auto add = [&](Weighted* w, size_t i, size_t j, size_t count, float* sums) {
    for (size_t g = 0; g < n_groups; ++g, sums += kValueGroup) {
      const auto scales = [&](size_t first, size_t n_scales) {
        float some[kLanes] = {};
        for (size_t k = 0; k < n_scales; ++k) {
          some[k] = value_scale_at(value_scales, (first + k) * n_groups + g);
        }
        return _mm512_loadu_ps(some);
      };
      scale_weights(rows, i, j, count, scales, w);
      const NibbleValues group = {values + j * row_bytes + g * kValueHalf, row_bytes};
      const size_t n_columns = value_group_size(head_dim, g * kValueGroup);
      const Columns columns = columns_of(n_columns, value_bytes(n_columns));
      if (n_columns == kValueGroup) {
        add_columns<true>(*w, group, columns, count, sums);
      } else {
        add_columns<false>(*w, group, columns, count, sums);
      }
    }
  };
  for_parts(rows, n, head_dim, out, add);
}

}  // namespace

void scores_q8_avx512vnni(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                          const float* key_scales, float multiplier, size_t n, float* scores,
                          size_t stride) {
  const size_t n_groups = (head_dim + kActivationGroup - 1) / kActivationGroup;
  for (size_t j = 0; j < n; j += kLanes) {
    const __mmask16 mask = lanes_of(n - j);
    ScoresOf16 part = {mask, true, false, _mm512_maskz_loadu_ps(mask, key_scales + j),
                       _mm512_set1_ps(multiplier)};
    for (size_t d = 0; d < head_dim; d += 2 * kActivationGroup) {
      const size_t left = head_dim - d;
      part.is_first = d == 0;
      part.is_last = left <= 2 * kActivationGroup;
      const auto score = left >= 64 ? score_part<64> : left == 32 ? score_part<32> : score_part<0>;
      score(q, n_groups, d, keys + j * head_dim + d, head_dim, n - j, part, scores + j, stride);
    }
  }
}

void weighted_sum_q8_avx512vnni(const WeightRows& w, const int8_t* values,
                                const float* value_scales, size_t n, size_t head_dim, float* out) {
  if (w.n_rows >= kLeastBlockQ8) {
    return weighted_block_q8(w, values, value_scales, n, head_dim, out);
  }
  constexpr size_t kParts = 4;
  for (size_t i = 0; i < w.n_rows; ++i, out += head_dim) {
    const float* const weights = w.weights + i * w.stride;
    const float rescale = w.rescale[i];
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
}

void weighted_sum_q4_avx512vnni(const WeightRows& w, const uint8_t* values,
                                const uint16_t* value_scales, size_t n, size_t head_dim,
                                float* out) {
  if (w.n_rows >= kLeastBlockQ4) {
    return weighted_block_q4(w, values, value_scales, n, head_dim, out);
  }
  constexpr size_t kGroups = 2;
  for (size_t i = 0; i < w.n_rows; ++i, out += head_dim) {
    const float* const weights = w.weights + i * w.stride;
    const float rescale = w.rescale[i];
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
}

}  // namespace cria
