// The kernels on vectors, written once over a type of 16 float lanes that each ISA's file brings:
// the contracts' partial sums are its lanes. Contracts are in runtime/kernels/kernels.h.
//
// Lanes is a type of the anonymous namespace of that file, so everything here gets internal linkage
// (runtime/kernels/overrides.h says why that matters). It has:
//   Lanes::all(x)                    x in every lane
//   Lanes::load(p, n)                p[0..min(n, 16)), zeros after; reads nothing else
//   Lanes::load_bytes(p, n)          the same for int8, as floats
//   Lanes::load_nibbles(p, n, a, b)  min(n, 16) bytes' nibbles less 8, as floats: a low, b high
//   Lanes::store(p, n, v)            writes p[0..min(n, 16)) and nothing else
//   Lanes::store_bytes(p, n, ints)   the same for int8, from integers
//   a + b, a - b, a * b, a / b       rounded one by one, never fused
//   Lanes::lesser(a, b)              a < b ? a : b
//   Lanes::negative(a)               the sign bit inverted
//   Lanes::first(v, n)               lanes from n on become +0
//   Lanes::zero_below(x, limit, v)   x < limit ? 0 : v
//   Lanes::power(shifted)            2^n from exp's shifted = n + kExpRoundMagic
//   Lanes::sum(v)                    the contract's tree
//   Lanes::larger_magnitude(a, x)    the larger of bits a and |x|'s bits, as integers
//   Lanes::largest(a)                the largest lane of such bits
//   Lanes::to_ints(v), Lanes::add_ints(a, b), Lanes::sum_ints(a)
//   Lanes::root(x)                   square root of one float
#pragma once

#include "runtime/base/scalar_math.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/value_codes.h"

namespace cria {

template <class Lanes>
struct LaneKernels {
  static constexpr size_t kLanes = kSumLanes;
  static constexpr float kLargestCode = 127.0f;
  static constexpr float kRoundMagic = 0x1.8p23f;  // as the scalar reference rounds
  static constexpr uint32_t kInfinityBits = 0x7f800000;

  // exp_f32 of runtime/base/scalar_math.h, step by step.
  static Lanes exp(Lanes x) {
    const Lanes magic = Lanes::all(kExpRoundMagic);
    const Lanes limited = Lanes::lesser(x, Lanes::all(kExpHighest));
    const Lanes shifted = limited * Lanes::all(kLog2E) + magic;
    const Lanes n = shifted - magic;
    const Lanes r = (limited - n * Lanes::all(kLn2High)) - n * Lanes::all(kLn2Low);
    Lanes p = Lanes::all(kExpTaylor7);
    p = p * r + Lanes::all(kExpTaylor6);
    p = p * r + Lanes::all(kExpTaylor5);
    p = p * r + Lanes::all(kExpTaylor4);
    p = p * r + Lanes::all(kExpTaylor3);
    p = p * r + Lanes::all(0.5f);
    p = p * r + Lanes::all(1.0f);
    p = p * r + Lanes::all(1.0f);
    return Lanes::zero_below(x, Lanes::all(kExpLowest), p * Lanes::power(shifted));
  }

  static uint32_t largest_magnitude(const float* x, size_t n) {
    Lanes largest = Lanes::all(0.0f);
    for (size_t i = 0; i < n; i += kLanes) {
      largest = Lanes::larger_magnitude(largest, Lanes::load(x + i, n - i));
    }
    return Lanes::largest(largest);
  }

  // Codes of n values, then zeros up to n_padded; returns the sum of the codes.
  static int32_t write_codes(const float* x, size_t n, size_t n_padded, float inverse,
                             int8_t* codes) {
    const Lanes factor = Lanes::all(inverse);
    const Lanes magic = Lanes::all(kRoundMagic);
    Lanes sum = Lanes::all(0.0f);
    for (size_t i = 0; i < n_padded; i += kLanes) {
      const Lanes value = Lanes::load(i < n ? x + i : x, i < n ? n - i : 0);
      const Lanes code = Lanes::to_ints((value * factor + magic) - magic);
      sum = Lanes::add_ints(sum, code);
      Lanes::store_bytes(codes + i, n_padded - i, code);
    }
    return Lanes::sum_ints(sum);
  }

  static void quantize_row(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                           float* scales, int32_t* sums) {
    for (size_t begin = 0; begin < n_padded; begin += group) {
      const size_t left = begin < n ? n - begin : 0;
      const size_t count = left < group ? left : group;
      const uint32_t bits = largest_magnitude(x + begin, count);
      const float largest = __builtin_bit_cast(float, bits);
      const bool is_zero = bits >= kInfinityBits || largest < kSmallestActivation;
      scales[begin / group] = is_zero ? 0.0f : largest / kLargestCode;
      // A group that counts as zeros is written as padding.
      const float inverse = is_zero ? 0.0f : kLargestCode / largest;
      const int32_t sum =
          write_codes(x + begin, is_zero ? 0 : count, group, inverse, codes + begin);
      if (sums != nullptr) sums[begin / group] = sum;
    }
  }

  static void quantize_values(const float* x, size_t n, uint8_t* codes, uint16_t* scales) {
    static_assert(kValueHalf == kLanes);
    const Lanes zero = Lanes::all(0.0f);
    const Lanes magic = Lanes::all(kRoundMagic);
    const Lanes highest = Lanes::all(kHighestValueCode);
    for (size_t begin = 0; begin < n; begin += kValueGroup) {
      const size_t count = value_group_size(n, begin);
      const size_t half = value_bytes(count);
      const Lanes values[] = {Lanes::load(x + begin, half),
                              Lanes::load(x + begin + half, count - half)};
      Lanes largest = zero;
      Lanes largest_below = zero;
      for (const Lanes& v : values) {
        largest = Lanes::larger_magnitude(largest, v);
        largest_below = Lanes::larger_magnitude(largest_below, Lanes::lesser(v, zero));
      }
      const ValueScale scale =
          find_value_scale(Lanes::largest(largest), Lanes::largest(largest_below));
      scales[begin / kValueGroup] = scale.bits;
      int8_t parts[2][kLanes] = {};
      if (scale.bits != 0) {
        const Lanes factor = Lanes::all(scale.inverse);
        for (size_t i = 0; i < 2; ++i) {
          const Lanes rounded = (values[i] * factor + magic) - magic;
          Lanes::store_bytes(parts[i], kLanes, Lanes::to_ints(Lanes::lesser(rounded, highest)));
        }
      }
      pack_value_codes(parts[0], parts[1], half, codes + begin / 2);
    }
  }

  static void rms_norm(const float* x, const float* weight, size_t n, float epsilon, float* y) {
    Lanes sum = Lanes::all(0.0f);
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes value = Lanes::load(x + i, n - i);
      sum = sum + value * value;
    }
    const float mean = Lanes::sum(sum) / static_cast<float>(n);
    const Lanes r = Lanes::all(1.0f / Lanes::root(mean + epsilon));
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes scaled = Lanes::load(x + i, n - i) * r;
      Lanes::store(y + i, n - i, scaled * Lanes::load(weight + i, n - i));
    }
  }

  static void rope(float* x, size_t n_heads, size_t head_dim, const float* cos, const float* sin) {
    const size_t half = head_dim / 2;
    for (size_t head = 0; head < n_heads; ++head, x += head_dim) {
      for (size_t i = 0; i < half; i += kLanes) {
        const size_t left = half - i;
        const Lanes a = Lanes::load(x + i, left);
        const Lanes b = Lanes::load(x + half + i, left);
        const Lanes c = Lanes::load(cos + i, left);
        const Lanes s = Lanes::load(sin + i, left);
        Lanes::store(x + i, left, a * c - b * s);
        Lanes::store(x + half + i, left, b * c + a * s);
      }
    }
  }

  static void silu_mul(float* gate, const float* up, size_t n) {
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes g = Lanes::load(gate + i, n - i);
      const Lanes below = Lanes::all(1.0f) + exp(Lanes::negative(g));
      Lanes::store(gate + i, n - i, (g / below) * Lanes::load(up + i, n - i));
    }
  }

  static void add_scaled(float* x, const float* y, float multiplier, size_t n) {
    const Lanes factor = Lanes::all(multiplier);
    for (size_t i = 0; i < n; i += kLanes) {
      Lanes::store(x + i, n - i, Lanes::load(x + i, n - i) + Lanes::load(y + i, n - i) * factor);
    }
  }

  static void scores_f32(const float* q, size_t head_dim, const float* keys, float multiplier,
                         size_t n, float* scores) {
    for (size_t j = 0; j < n; ++j, keys += head_dim) {
      Lanes sum = Lanes::all(0.0f);
      for (size_t d = 0; d < head_dim; d += kLanes) {
        sum = sum + Lanes::load(q + d, head_dim - d) * Lanes::load(keys + d, head_dim - d);
      }
      scores[j] = Lanes::sum(sum) * multiplier;
    }
  }

  static float exp_sum(float* scores, size_t n, float max) {
    const Lanes largest = Lanes::all(max);
    Lanes sum = Lanes::all(0.0f);
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes value = exp(Lanes::load(scores + i, n - i) - largest);
      Lanes::store(scores + i, n - i, value);
      // Adding +0 changes no lane: none of them is -0.
      sum = sum + Lanes::first(value, n - i);
    }
    return Lanes::sum(sum);
  }

  // kParts times 16 columns of a query's out over all positions, or one part of fewer: left of
  // them.
  template <size_t kParts>
  static void columns_of_query(const float* weights, const int8_t* values,
                               const float* value_scales, size_t n, size_t head_dim, size_t left,
                               float rescale, float* out) {
    Lanes sum[kParts];
    for (size_t i = 0; i < kParts; ++i) {
      sum[i] = Lanes::load(out + i * kLanes, left) * Lanes::all(rescale);
    }
    for (size_t j = 0; j < n; ++j, values += head_dim) {
      const Lanes weight = Lanes::all(weights[j] * value_scales[j]);
      for (size_t i = 0; i < kParts; ++i) {
        sum[i] = sum[i] + weight * Lanes::load_bytes(values + i * kLanes, left);
      }
    }
    for (size_t i = 0; i < kParts; ++i) Lanes::store(out + i * kLanes, left, sum[i]);
  }

  // out = out * rescale, then for n <= 16 positions, ascending: out += weights[j] * values[j].
  template <size_t kParts>
  static void add_weighted(const float* weights, const float (*values)[kParts * kLanes], size_t n,
                           size_t left, float rescale, float* out) {
    Lanes sum[kParts];
    for (size_t i = 0; i < kParts; ++i) {
      sum[i] = Lanes::load(out + i * kLanes, left) * Lanes::all(rescale);
    }
    for (size_t j = 0; j < n; ++j) {
      const Lanes weight = Lanes::all(weights[j]);
      for (size_t i = 0; i < kParts; ++i) {
        sum[i] = sum[i] + weight * Lanes::load(values[j] + i * kLanes, kLanes);
      }
    }
    for (size_t i = 0; i < kParts; ++i) Lanes::store(out + i * kLanes, left, sum[i]);
  }

  // The same columns for a block: 16 positions' values become floats once for all its queries.
  template <size_t kParts>
  static void columns_of_block(const WeightRows& w, const int8_t* values, const float* value_scales,
                               size_t n, size_t head_dim, size_t left, float* out) {
    alignas(64) float floats[kLanes][kParts * kLanes];
    alignas(64) float weights[kLanes];
    for (size_t j = 0; j == 0 || j < n; j += kLanes) {
      const size_t count = n - j < kLanes ? n - j : kLanes;
      for (size_t k = 0; k < count; ++k) {
        for (size_t i = 0; i < kParts; ++i) {
          Lanes::store(floats[k] + i * kLanes, kLanes,
                       Lanes::load_bytes(values + (j + k) * head_dim + i * kLanes, left));
        }
      }
      for (size_t i = 0; i < w.n_rows; ++i) {
        const float* const from = w.weights + i * w.stride + j;
        Lanes::store(weights, kLanes,
                     Lanes::load(from, count) * Lanes::load(value_scales + j, count));
        add_weighted<kParts>(weights, floats, count, left, j == 0 ? w.rescale[i] : 1.0f,
                             out + i * head_dim);
      }
    }
  }

  static void weighted_sum_q8(const WeightRows& w, const int8_t* values, const float* value_scales,
                              size_t n, size_t head_dim, float* out) {
    constexpr size_t kParts = Lanes::kSums;  // sums held in registers over all positions
    const bool is_block = w.n_rows != 1;
    size_t d = 0;
    for (; d + kParts * kLanes <= head_dim && is_block; d += kParts * kLanes) {
      columns_of_block<kParts>(w, values + d, value_scales, n, head_dim, kLanes, out + d);
    }
    for (; d + kParts * kLanes <= head_dim; d += kParts * kLanes) {
      columns_of_query<kParts>(w.weights, values + d, value_scales, n, head_dim, kLanes,
                               w.rescale[0], out + d);
    }
    for (; d < head_dim; d += kLanes) {
      const size_t left = head_dim - d;
      if (is_block) {
        columns_of_block<1>(w, values + d, value_scales, n, head_dim, left, out + d);
      } else {
        columns_of_query<1>(w.weights, values + d, value_scales, n, head_dim, left, w.rescale[0],
                            out + d);
      }
    }
  }

  static void weighted_sum_f32(const float* weights, const float* values, size_t n, size_t head_dim,
                               float rescale, float* out) {
    for (size_t d = 0; d < head_dim; d += kLanes) {
      const size_t left = head_dim - d;
      Lanes sum = Lanes::load(out + d, left) * Lanes::all(rescale);
      for (size_t j = 0; j < n; ++j) {
        sum = sum + Lanes::all(weights[j]) * Lanes::load(values + j * head_dim + d, left);
      }
      Lanes::store(out + d, left, sum);
    }
  }

  // Where a group of a head's values in 4 bits is, and its columns of out.
  struct Nibbles {
    const uint8_t* codes;
    const uint16_t* scales;
    size_t row_bytes;
    size_t n_groups;
    size_t half;   // columns in low nibbles, which come first
    size_t count;  // all

    [[nodiscard]] float scale(size_t j) const { return value_scale_at(scales, j * n_groups); }
    void load(size_t j, Lanes* low, Lanes* high) const {
      Lanes::load_nibbles(codes + j * row_bytes, half, low, high);
    }
  };

  static void group_of_query(const float* weights, const Nibbles& values, size_t n, float rescale,
                             float* out) {
    const Lanes factor = Lanes::all(rescale);
    Lanes low_sum = Lanes::load(out, values.half) * factor;
    Lanes high_sum = Lanes::load(out + values.half, values.count - values.half) * factor;
    for (size_t j = 0; j < n; ++j) {
      const Lanes weight = Lanes::all(weights[j] * values.scale(j));
      Lanes low, high;
      values.load(j, &low, &high);
      low_sum = low_sum + weight * low;
      high_sum = high_sum + weight * high;
    }
    Lanes::store(out, values.half, low_sum);
    Lanes::store(out + values.half, values.count - values.half, high_sum);
  }

  static void group_of_block(const WeightRows& w, const Nibbles& values, size_t n, size_t head_dim,
                             float* out) {
    alignas(64) float floats[kLanes][kValueGroup];
    alignas(64) float scales[kLanes];
    alignas(64) float weights[kLanes];
    for (size_t j = 0; j == 0 || j < n; j += kLanes) {
      const size_t count = n - j < kLanes ? n - j : kLanes;
      for (size_t k = 0; k < count; ++k) {
        Lanes low, high;
        values.load(j + k, &low, &high);
        Lanes::store(floats[k], kLanes, low);
        Lanes::store(floats[k] + kLanes, kLanes, high);
        scales[k] = values.scale(j + k);
      }
      for (size_t i = 0; i < w.n_rows; ++i) {
        const float* const from = w.weights + i * w.stride + j;
        Lanes::store(weights, kLanes, Lanes::load(from, count) * Lanes::load(scales, count));
        const float rescale = j == 0 ? w.rescale[i] : 1.0f;
        add_weighted(weights, floats, count, values, rescale, out + i * head_dim);
      }
    }
  }

  // As above, but for the columns of a group.
  static void add_weighted(const float* weights, const float (*floats)[kValueGroup], size_t n,
                           const Nibbles& values, float rescale, float* out) {
    const Lanes factor = Lanes::all(rescale);
    Lanes low_sum = Lanes::load(out, values.half) * factor;
    Lanes high_sum = Lanes::load(out + values.half, values.count - values.half) * factor;
    for (size_t j = 0; j < n; ++j) {
      const Lanes weight = Lanes::all(weights[j]);
      low_sum = low_sum + weight * Lanes::load(floats[j], kLanes);
      high_sum = high_sum + weight * Lanes::load(floats[j] + kLanes, kLanes);
    }
    Lanes::store(out, values.half, low_sum);
    Lanes::store(out + values.half, values.count - values.half, high_sum);
  }

  static void weighted_sum_q4(const WeightRows& w, const uint8_t* values,
                              const uint16_t* value_scales, size_t n, size_t head_dim, float* out) {
    const size_t row_bytes = value_bytes(head_dim);
    const size_t n_groups = value_groups(head_dim);
    for (size_t g = 0; g < n_groups; ++g) {
      const size_t count = value_group_size(head_dim, g * kValueGroup);
      const Nibbles group = {values + g * kValueHalf,
                             value_scales + g,
                             row_bytes,
                             n_groups,
                             value_bytes(count),
                             count};
      float* const columns = out + g * kValueGroup;
      if (w.n_rows == 1) {
        group_of_query(w.weights, group, n, w.rescale[0], columns);
      } else {
        group_of_block(w, group, n, head_dim, columns);
      }
    }
  }

  // Puts all of the above into the table.
  static void fill(Kernels* table) {
    table->quantize_row = quantize_row;
    table->quantize_values = quantize_values;
    table->rms_norm = rms_norm;
    table->rope = rope;
    table->silu_mul = silu_mul;
    table->add_scaled = add_scaled;
    table->scores_f32 = scores_f32;
    table->exp_sum = exp_sum;
    table->weighted_sum_q8 = weighted_sum_q8;
    table->weighted_sum_f32 = weighted_sum_f32;
    table->weighted_sum_q4 = weighted_sum_q4;
  }
};

}  // namespace cria
