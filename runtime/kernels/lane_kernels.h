// The kernels on vectors, written once over a type of 16 float lanes that each ISA's file brings:
// the contracts' partial sums are its lanes. Contracts are in runtime/kernels/kernels.h.
//
// Lanes is a type of the anonymous namespace of that file, so everything here gets internal linkage
// (runtime/kernels/overrides.h says why that matters). It has:
//   Lanes::all(x)                    x in every lane
//   Lanes::load(p, n)                p[0..min(n, 16)), zeros behind; reads nothing else
//   Lanes::load_bytes(p, n)          the same for int8, as floats
//   Lanes::load_nibbles(p, n, a, b)  min(n, 16) bytes' nibbles less 8, as floats: a low ones, b
//   high Lanes::store(p, n, v)            writes p[0..min(n, 16)) and nothing else
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

  static void weighted_sum_q8(const float* weights, const int8_t* values, const float* value_scales,
                              size_t n, size_t head_dim, float rescale, float* out) {
    constexpr size_t kParts = Lanes::kSums;  // sums held in registers over all positions
    const Lanes factor = Lanes::all(rescale);
    size_t d = 0;
    for (; d + kParts * kLanes <= head_dim; d += kParts * kLanes) {
      Lanes sum[kParts];
      for (size_t i = 0; i < kParts; ++i)
        sum[i] = Lanes::load(out + d + i * kLanes, kLanes) * factor;
      for (size_t j = 0; j < n; ++j) {
        const Lanes weight = Lanes::all(weights[j] * value_scales[j]);
        const int8_t* value = values + j * head_dim + d;
        for (size_t i = 0; i < kParts; ++i) {
          sum[i] = sum[i] + weight * Lanes::load_bytes(value + i * kLanes, kLanes);
        }
      }
      for (size_t i = 0; i < kParts; ++i) Lanes::store(out + d + i * kLanes, kLanes, sum[i]);
    }
    for (; d < head_dim; d += kLanes) {
      const size_t left = head_dim - d;
      Lanes sum = Lanes::load(out + d, left) * factor;
      for (size_t j = 0; j < n; ++j) {
        const Lanes weight = Lanes::all(weights[j] * value_scales[j]);
        sum = sum + weight * Lanes::load_bytes(values + j * head_dim + d, left);
      }
      Lanes::store(out + d, left, sum);
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

  static void weighted_sum_q4(const float* weights, const uint8_t* values,
                              const uint16_t* value_scales, size_t n, size_t head_dim,
                              float rescale, float* out) {
    const size_t row_bytes = value_bytes(head_dim);
    const size_t n_groups = value_groups(head_dim);
    const Lanes factor = Lanes::all(rescale);
    for (size_t g = 0; g < n_groups; ++g) {
      const size_t count = value_group_size(head_dim, g * kValueGroup);
      const size_t half = value_bytes(count);
      float* const low_out = out + g * kValueGroup;
      float* const high_out = low_out + half;
      Lanes low_sum = Lanes::load(low_out, half) * factor;
      Lanes high_sum = Lanes::load(high_out, count - half) * factor;
      for (size_t j = 0; j < n; ++j) {
        const Lanes weight =
            Lanes::all(weights[j] * value_scale_at(value_scales, j * n_groups + g));
        Lanes low, high;
        Lanes::load_nibbles(values + j * row_bytes + g * kValueHalf, half, &low, &high);
        low_sum = low_sum + weight * low;
        high_sum = high_sum + weight * high;
      }
      Lanes::store(low_out, half, low_sum);
      Lanes::store(high_out, count - half, high_sum);
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
