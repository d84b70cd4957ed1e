// Attention's sums of weighted values for Advanced SIMD.
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/arm/neon.h"

#if !defined(__ARM_NEON)
#error "Build this file for Advanced SIMD (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include "runtime/kernels/arm/neon_math.h"
#include "runtime/kernels/value_codes.h"

namespace cria {
namespace {

constexpr size_t kPart = kSumLanes;     // columns whose sums are in registers over many positions
constexpr size_t kBlockQueries = 4;     // that share what is loaded: with their sums, 32 registers
constexpr size_t kBlockPositions = 32;  // whose values become floats once for many queries
constexpr size_t kMostParts = 4;        // of a strip: columns for which weights are prepared once

// Parts of one position's values as floats.
template <size_t kParts>
struct Values {
  float32x4_t v[kParts * kVectorsPerLanes];
};

#if defined(__aarch64__)

// Where the bytes of four floats come from so that each becomes the highest of four: places past
// the vector give zeros.
struct Places {
  uint8x16_t v[kVectorsPerLanes];
};

Places places_of_bytes() {
  Places places;
  for (uint8_t v = 0; v < kVectorsPerLanes; ++v) {
    constexpr uint8_t kNone = 0xff;
    const auto at = static_cast<uint8_t>(v * kFloatsPerVector);
    const auto next = [at](int i) { return static_cast<uint8_t>(at + i); };
    places.v[v] = uint8x16_t{kNone, kNone, kNone, at,      kNone, kNone, kNone, next(1),
                             kNone, kNone, kNone, next(2), kNone, kNone, kNone, next(3)};
    // GCC would load the constant again for each use.
    asm("" : "+w"(places.v[v]));
  }
  return places;
}

// 16 codes that stand in the highest kBits of bytes.
template <int kBits>
Values<1> to_floats(const Places& places, int8x16_t bytes) {
  Values<1> values;
  for (size_t v = 0; v < kVectorsPerLanes; ++v) {
    const int32x4_t highest = vreinterpretq_s32_s8(vqtbl1q_s8(bytes, places.v[v]));
    values.v[v] = vcvtq_n_f32_s32(highest, 32 - kBits);
  }
  return values;
}

#else

struct Places {};

Places places_of_bytes() { return {}; }

template <int kBits>
Values<1> to_floats(const Places& /*places*/, int8x16_t bytes) {
  const int16x8_t halves[] = {vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes))};
  Values<1> values;
  for (size_t v = 0; v < kVectorsPerLanes; ++v) {
    const int16x8_t half = halves[v / 2];
    const int32x4_t codes = vmovl_s16(v % 2 == 0 ? vget_low_s16(half) : vget_high_s16(half));
    if constexpr (kBits == 8) {
      values.v[v] = vcvtq_f32_s32(codes);
    } else {
      values.v[v] = vcvtq_n_f32_s32(codes, 8 - kBits);
    }
  }
  return values;
}

#endif

Values<2> join(const Values<1>& a, const Values<1>& b) {
  return {{a.v[0], a.v[1], a.v[2], a.v[3], b.v[0], b.v[1], b.v[2], b.v[3]}};
}

// The same kParts parts of many positions, stride elements apart.
struct FloatRows {
  static constexpr size_t kParts = 1;
  const float* p;
  size_t stride;
  [[nodiscard]] Values<1> load(size_t j) const {
    const float* row = p + j * stride;
    return {{vld1q_f32(row), vld1q_f32(row + 4), vld1q_f32(row + 8), vld1q_f32(row + 12)}};
  }
};

struct ByteRows {
  static constexpr size_t kParts = 1;
  const int8_t* p;
  size_t stride;
  Places places = places_of_bytes();
  [[nodiscard]] Values<1> load(size_t j) const {
    return to_floats<8>(places, vld1q_s8(p + j * stride));
  }
};

struct BytePairRows {
  static constexpr size_t kParts = 2;
  const int8_t* p;
  size_t stride;
  Places places = places_of_bytes();
  [[nodiscard]] Values<2> load(size_t j) const {
    const int8_t* row = p + j * stride;
    return join(to_floats<8>(places, vld1q_s8(row)), to_floats<8>(places, vld1q_s8(row + kPart)));
  }
};

// 16 pairs of codes. A code's nibble is the code but for its highest bit.
uint8x16_t load_codes(const uint8_t* p) { return veorq_u8(vld1q_u8(p), vdupq_n_u8(0x88)); }

Values<1> low_codes(const Places& places, uint8x16_t codes) {
  return to_floats<4>(places, vreinterpretq_s8_u8(vshlq_n_u8(codes, 4)));
}
Values<1> high_codes(const Places& places, uint8x16_t codes) {
  return to_floats<4>(places, vreinterpretq_s8_u8(vandq_u8(codes, vdupq_n_u8(0xf0))));
}

template <bool kIsLow>
struct NibbleRows {
  static constexpr size_t kParts = 1;
  const uint8_t* p;
  size_t stride;
  Places places = places_of_bytes();
  [[nodiscard]] Values<1> load(size_t j) const {
    const uint8x16_t codes = load_codes(p + j * stride);
    return kIsLow ? low_codes(places, codes) : high_codes(places, codes);
  }
};

struct NibblePairRows {
  static constexpr size_t kParts = 2;
  const uint8_t* p;
  size_t stride;
  Places places = places_of_bytes();
  [[nodiscard]] Values<2> load(size_t j) const {
    const uint8x16_t codes = load_codes(p + j * stride);
    return join(low_codes(places, codes), high_codes(places, codes));
  }
};

// Weights lie [position][kBlockQueries], those of one query alone without gaps.
constexpr size_t weight_step(size_t n_queries) { return n_queries == 1 ? 1 : kBlockQueries; }

// Adds n positions' values to the sums of kQueries queries, which are stride apart.
template <size_t kQueries, class Rows>
void add_parts_of(const float* weights, const Rows& rows, size_t n, float* out, size_t stride) {
  constexpr size_t kVectors = Rows::kParts * kVectorsPerLanes;
  Values<Rows::kParts> sums[kQueries];
#pragma GCC unroll 4
  for (size_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      sums[i].v[v] = vld1q_f32(out + i * stride + v * kFloatsPerVector);
    }
  }
  for (size_t j = 0; j < n; ++j) {
    const Values<Rows::kParts> values = rows.load(j);
    if constexpr (kQueries == 1) {
      const float weight = weights[j];
      for (size_t v = 0; v < kVectors; ++v) {
        sums[0].v[v] = vaddq_f32(sums[0].v[v], vmulq_n_f32(values.v[v], weight));
      }
    } else {
      const float32x4_t four = vld1q_f32(weights + j * kBlockQueries);
#pragma GCC unroll 4
      for (size_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
        for (size_t v = 0; v < kVectors; ++v) {
          sums[i].v[v] = vaddq_f32(sums[i].v[v], vmulq_n_f32(values.v[v], four[i]));
        }
      }
    }
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      vst1q_f32(out + i * stride + v * kFloatsPerVector, sums[i].v[v]);
    }
  }
}

// The same for n_queries <= kMost.
template <size_t kMost, class Rows>
void add_parts(size_t n_queries, const float* weights, const Rows& rows, size_t n, float* out,
               size_t stride) {
  if constexpr (kMost > 1) {
    if (n_queries == kMost) return add_parts_of<kMost>(weights, rows, n, out, stride);
    add_parts<kMost - 1>(n_queries, weights, rows, n, out, stride);
  } else {
    add_parts_of<1>(weights, rows, n, out, stride);
  }
}

void rescale_row(float factor, size_t n, float* x) {
  if (factor == 1.0f) return;
  size_t i = 0;
  for (; i + kFloatsPerVector <= n; i += kFloatsPerVector) {
    vst1q_f32(x + i, vmulq_n_f32(vld1q_f32(x + i), factor));
  }
  for (; i < n; ++i) x[i] *= factor;
}

// The weights of up to kBlockQueries queries for n positions times the positions' scales.
void scale_weights(const float* weights, size_t stride, size_t n_queries, const float* scales,
                   size_t n, float* scaled) {
  const size_t step = weight_step(n_queries);
  size_t j = 0;
  if (step == 1) {
    for (; j + kFloatsPerVector <= n; j += kFloatsPerVector) {
      vst1q_f32(scaled + j, vmulq_f32(vld1q_f32(weights + j), vld1q_f32(scales + j)));
    }
  } else {
    const float* const second = weights + stride;
    const float* const third = n_queries > 2 ? second + stride : weights;
    const float* const fourth = n_queries > 3 ? third + stride : weights;
    for (; j + kFloatsPerVector <= n; j += kFloatsPerVector) {
      const float32x4_t scale = vld1q_f32(scales + j);
      const float32x4x4_t four = {
          {vmulq_f32(vld1q_f32(weights + j), scale), vmulq_f32(vld1q_f32(second + j), scale),
           vmulq_f32(vld1q_f32(third + j), scale), vmulq_f32(vld1q_f32(fourth + j), scale)}};
      vst4q_f32(scaled + j * kBlockQueries, four);
    }
  }
  for (; j < n; ++j) {
    for (size_t i = 0; i < n_queries; ++i)
      scaled[j * step + i] = weights[i * stride + j] * scales[j];
  }
}

// Columns of int8 values, n_parts parts of them.
struct ByteStrip {
  const int8_t* values;
  const float* all_scales;
  size_t head_dim;
  size_t n_parts;

  [[nodiscard]] const float* scales(size_t j, size_t /*n*/, float* /*room*/) const {
    return all_scales + j;
  }
  // Call use with the rows of a part, or of two, from position j on.
  template <class Use>
  void with_part(size_t part, size_t j, const Use& use) const {
    use(ByteRows{values + j * head_dim + part * kPart, head_dim});
  }
  template <class Use>
  void with_pair(size_t part, size_t j, const Use& use) const {
    use(BytePairRows{values + j * head_dim + part * kPart, head_dim});
  }
};

// A whole group of a head's values in 4 bits.
struct NibbleStrip {
  static constexpr size_t n_parts = 2;
  const uint8_t* codes;
  const uint16_t* group_scales;
  size_t row_bytes;
  size_t n_groups;

  const float* scales(size_t j, size_t n, float* room) const {
    for (size_t k = 0; k < n; ++k) room[k] = value_scale_at(group_scales, (j + k) * n_groups);
    return room;
  }
  template <class Use>
  void with_part(size_t part, size_t j, const Use& use) const {
    const uint8_t* p = codes + j * row_bytes;
    if (part == 0) {
      use(NibbleRows<true>{p, row_bytes});
    } else {
      use(NibbleRows<false>{p, row_bytes});
    }
  }
  template <class Use>
  void with_pair(size_t /*part*/, size_t j, const Use& use) const {
    use(NibblePairRows{codes + j * row_bytes, row_bytes});
  }
};

// Positions of a strip, and the queries whose sums get their values.
struct StripCall {
  size_t n_queries;
  const float* weights;
  size_t first;
  size_t n;
  float* out;
  size_t stride;
};

// Few queries: values become floats in registers. Of one query two parts at once save loads.
template <class Strip>
void add_few(const StripCall& call, const Strip& strip) {
  size_t part = 0;
  // 16 registers have no room for them.
  for (; part + 2 <= strip.n_parts && call.n_queries == 1 && kHasQueryBlocks; part += 2) {
    strip.with_pair(part, call.first, [&](const auto& rows) {
      add_parts_of<1>(call.weights, rows, call.n, call.out + part * kPart, call.stride);
    });
  }
  for (; part < strip.n_parts; ++part) {
    strip.with_part(part, call.first, [&](const auto& rows) {
      add_parts<kHasQueryBlocks ? kBlockQueries : 1>(call.n_queries, call.weights, rows, call.n,
                                                     call.out + part * kPart, call.stride);
    });
  }
}

// The contract for the columns of a strip.
template <class Strip>
void sum_few(const WeightRows& w, const Strip& strip, size_t n, size_t head_dim, float* out) {
  float room[kBlockPositions];
  float weights[kBlockPositions * (kHasQueryBlocks ? kBlockQueries : 1)];
  const size_t n_queries = block_rows(w.n_rows);
  for (size_t j = 0; j < n; j += kBlockPositions) {
    const size_t count = n - j < kBlockPositions ? n - j : kBlockPositions;
    const float* scales = strip.scales(j, count, room);
    scale_weights(w.weights + j, w.stride, n_queries, scales, count, weights);
    add_few({n_queries, weights, j, count, out, head_dim}, strip);
  }
}

// The same for more than kBlockQueries queries: values become floats in memory, once for all.
template <class Strip>
void sum_many(const WeightRows& w, const Strip& strip, size_t n, size_t head_dim, float* out) {
  alignas(64) float floats[kMostParts][kBlockPositions][kPart];
  float room[kBlockPositions];
  float weights[kBlockPositions * kBlockQueries];
  for (size_t j = 0; j < n; j += kBlockPositions) {
    const size_t count = n - j < kBlockPositions ? n - j : kBlockPositions;
    const float* scales = strip.scales(j, count, room);
    for (size_t part = 0; part < strip.n_parts; ++part) {
      strip.with_part(part, j, [&](const auto& rows) {
        for (size_t k = 0; k < count; ++k) {
          const Values<1> values = rows.load(k);
          for (size_t v = 0; v < kVectorsPerLanes; ++v) {
            vst1q_f32(floats[part][k] + v * kFloatsPerVector, values.v[v]);
          }
        }
      });
    }
    for (size_t i = 0; i < w.n_rows; i += kBlockQueries) {
      const size_t some = w.n_rows - i < kBlockQueries ? w.n_rows - i : kBlockQueries;
      scale_weights(w.weights + i * w.stride + j, w.stride, some, scales, count, weights);
      for (size_t part = 0; part < strip.n_parts; ++part) {
        add_parts<kBlockQueries>(some, weights, FloatRows{floats[part][0], kPart}, count,
                                 out + i * head_dim + part * kPart, head_dim);
      }
    }
  }
}

template <class Strip>
void sum_strip(const WeightRows& w, const Strip& strip, size_t n, size_t head_dim, float* out) {
  for (size_t i = 0; i < block_rows(w.n_rows); ++i) {
    rescale_row(w.rescale[i], strip.n_parts * kPart, out + i * head_dim);
  }
  if constexpr (kHasQueryBlocks) {
    if (w.n_rows > kBlockQueries) return sum_many(w, strip, n, head_dim, out);
  }
  sum_few(w, strip, n, head_dim, out);
}

// One column of a query: value(j) is weighted with weight(j).
template <class Weight, class Value>
void sum_column(const Weight& weight, const Value& value, size_t n, float rescale, float* out) {
  float sum = *out * rescale;
  for (size_t j = 0; j < n; ++j) sum += weight(j) * value(j);
  *out = sum;
}

}  // namespace

void weighted_sum_q8_neon(const WeightRows& w, const int8_t* values, const float* value_scales,
                          size_t n, size_t head_dim, float* out) {
  const size_t whole = head_dim / kPart * kPart;
  for (size_t d = 0; d < whole; d += kMostParts * kPart) {
    const size_t n_parts = (whole - d) / kPart;
    const ByteStrip strip = {values + d, value_scales, head_dim,
                             n_parts < kMostParts ? n_parts : kMostParts};
    sum_strip(w, strip, n, head_dim, out + d);
  }
  for (size_t i = 0; i < block_rows(w.n_rows); ++i) {
    for (size_t d = whole; d < head_dim; ++d) {
      sum_column([&](size_t j) { return w.weights[i * w.stride + j] * value_scales[j]; },
                 [&](size_t j) { return static_cast<float>(values[j * head_dim + d]); }, n,
                 w.rescale[i], out + i * head_dim + d);
    }
  }
}

void weighted_sum_f32_neon(const float* weights, const float* values, size_t n, size_t head_dim,
                           float rescale, float* out) {
  const size_t whole = head_dim / kPart * kPart;
  rescale_row(rescale, whole, out);
  for (size_t d = 0; d < whole; d += kPart) {
    add_parts_of<1>(weights, FloatRows{values + d, head_dim}, n, out + d, head_dim);
  }
  for (size_t d = whole; d < head_dim; ++d) {
    sum_column([&](size_t j) { return weights[j]; },
               [&](size_t j) { return values[j * head_dim + d]; }, n, rescale, out + d);
  }
}

void weighted_sum_q4_neon(const WeightRows& w, const uint8_t* values, const uint16_t* value_scales,
                          size_t n, size_t head_dim, float* out) {
  const size_t row_bytes = value_bytes(head_dim);
  const size_t n_groups = value_groups(head_dim);
  for (size_t g = 0; g < n_groups; ++g, values += kValueHalf, ++value_scales, out += kValueGroup) {
    const size_t count = value_group_size(head_dim, g * kValueGroup);
    if (count == kValueGroup) {
      sum_strip(w, NibbleStrip{values, value_scales, row_bytes, n_groups}, n, head_dim, out);
      continue;
    }
    const size_t half = value_bytes(count);
    for (size_t i = 0; i < block_rows(w.n_rows); ++i) {
      for (size_t d = 0; d < count; ++d) {
        const uint8_t* pairs = values + d % half;
        const int shift = d < half ? 0 : 4;
        sum_column(
            [&](size_t j) {
              return w.weights[i * w.stride + j] * value_scale_at(value_scales, j * n_groups);
            },
            [&](size_t j) {
              return static_cast<float>(((pairs[j * row_bytes] >> shift) & 0x0f) - kNibbleZero);
            },
            n, w.rescale[i], out + i * head_dim + d);
      }
    }
  }
}

}  // namespace cria
