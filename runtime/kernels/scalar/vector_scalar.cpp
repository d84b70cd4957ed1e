// Scalar reference of everything that is not a matrix product. Naive for ever.
// Contracts are in runtime/kernels/kernels.h.
#include <cmath>

#include "quant/numbers/float16.h"
#include "runtime/base/features.h"
#include "runtime/base/scalar_math.h"
#include "runtime/kernels/scalar/scalar.h"

namespace cria {
namespace {

// Adds a position's values in 4 bits, weighted, to out.
void add_nibbles(float weight, const uint8_t* values, const uint16_t* value_scales, size_t head_dim,
                 float* out) {
  for (size_t begin = 0; begin < head_dim; begin += kValueGroup) {
    const size_t count = value_group_size(head_dim, begin);
    const size_t half = value_bytes(count);
    const float scaled = weight * bf16_to_f32(*value_scales++);
    float* const low = out + begin;
    float* const high = low + half;
    for (size_t i = 0; i < half; ++i) {
      low[i] += scaled * static_cast<float>((values[i] & 0x0f) - kNibbleZero);
    }
    for (size_t i = 0; i < count - half; ++i) {
      high[i] += scaled * static_cast<float>((values[i] >> 4) - kNibbleZero);
    }
    values += half;
  }
}

}  // namespace

void rms_norm_scalar(const float* x, const float* weight, size_t n, float epsilon, float* y) {
  float lanes[kSumLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % kSumLanes] += x[i] * x[i];
  const float mean = sum_lanes(lanes) / static_cast<float>(n);
  const float r = 1.0f / std::sqrt(mean + epsilon);
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] * r) * weight[i];
}

void rope_scalar(float* x, size_t n_heads, size_t head_dim, const float* cos, const float* sin) {
  const size_t half = head_dim / 2;
  for (size_t head = 0; head < n_heads; ++head, x += head_dim) {
    for (size_t i = 0; i < half; ++i) {
      const float a = x[i];
      const float b = x[i + half];
      x[i] = a * cos[i] - b * sin[i];
      x[i + half] = b * cos[i] + a * sin[i];
    }
  }
}

void silu_mul_scalar(float* gate, const float* up, size_t n) {
  for (size_t i = 0; i < n; ++i) gate[i] = (gate[i] / (1.0f + exp_f32(-gate[i]))) * up[i];
}

void add_scaled_scalar(float* x, const float* y, float multiplier, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] += y[i] * multiplier;
}

void scores_q8_scalar(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                      const float* key_scales, float multiplier, size_t n, float* scores,
                      size_t stride) {
  const size_t n_groups = (head_dim + kActivationGroup - 1) / kActivationGroup;
  for (size_t i = 0; i < block_rows(q.n_rows); ++i, scores += stride) {
    const int8_t* const q_codes = q.codes + i * n_groups * kActivationGroup;
    for (size_t j = 0; j < n; ++j) {
      float sum = 0.0f;
      for (size_t g = 0; g < n_groups; ++g) {
        const size_t begin = g * kActivationGroup;
        const size_t end =
            begin + kActivationGroup < head_dim ? begin + kActivationGroup : head_dim;
        int32_t dot = 0;
        for (size_t d = begin; d < end; ++d) dot += q_codes[d] * keys[j * head_dim + d];
        sum += static_cast<float>(dot) * q.scales[i * n_groups + g];
      }
      scores[j] = (sum * key_scales[j]) * multiplier;
    }
  }
}

void scores_f32_scalar(const float* q, size_t head_dim, const float* keys, float multiplier,
                       size_t n, float* scores) {
  for (size_t j = 0; j < n; ++j, keys += head_dim) {
    float lanes[kSumLanes] = {};
    for (size_t d = 0; d < head_dim; ++d) lanes[d % kSumLanes] += q[d] * keys[d];
    scores[j] = sum_lanes(lanes) * multiplier;
  }
}

float exp_sum_scalar(float* scores, size_t n, float max) {
  float lanes[kSumLanes] = {};
  for (size_t j = 0; j < n; ++j) {
    scores[j] = exp_f32(scores[j] - max);
    lanes[j % kSumLanes] += scores[j];
  }
  return sum_lanes(lanes);
}

void weighted_sum_q8_scalar(const WeightRows& w, const int8_t* values, const float* value_scales,
                            size_t n, size_t head_dim, float* out) {
  for (size_t i = 0; i < block_rows(w.n_rows); ++i, out += head_dim) {
    for (size_t d = 0; d < head_dim; ++d) out[d] *= w.rescale[i];
    for (size_t j = 0; j < n; ++j) {
      const float weight = w.weights[i * w.stride + j] * value_scales[j];
      const int8_t* const value = values + j * head_dim;
      for (size_t d = 0; d < head_dim; ++d) out[d] += weight * static_cast<float>(value[d]);
    }
  }
}

void weighted_sum_f32_scalar(const float* weights, const float* values, size_t n, size_t head_dim,
                             float rescale, float* out) {
  for (size_t d = 0; d < head_dim; ++d) out[d] *= rescale;
  for (size_t j = 0; j < n; ++j, values += head_dim) {
    for (size_t d = 0; d < head_dim; ++d) out[d] += weights[j] * values[d];
  }
}

void weighted_sum_q4_scalar(const WeightRows& w, const uint8_t* values,
                            const uint16_t* value_scales, size_t n, size_t head_dim, float* out) {
  for (size_t i = 0; i < block_rows(w.n_rows); ++i, out += head_dim) {
    for (size_t d = 0; d < head_dim; ++d) out[d] *= w.rescale[i];
    for (size_t j = 0; j < n; ++j) {
      add_nibbles(w.weights[i * w.stride + j], values + j * value_bytes(head_dim),
                  value_scales + j * value_groups(head_dim), head_dim, out);
    }
  }
}

void quantize_values_scalar(const float* x, size_t n, uint8_t* codes, uint16_t* scales) {
  constexpr float kRoundMagic = 0x1.8p23f;  // x + it - it rounds |x| < 2^22 half to even
  constexpr float kHighestCode = 7.0f;
  for (size_t begin = 0; begin < n; begin += kValueGroup) {
    const size_t count = value_group_size(n, begin);
    const size_t half = value_bytes(count);
    float lowest = 0.0f;
    float highest = 0.0f;
    bool is_finite = true;
    for (size_t i = 0; i < count; ++i) {
      const float value = x[begin + i];
      lowest = value < lowest ? value : lowest;
      highest = value > highest ? value : highest;
      is_finite = is_finite && std::isfinite(value);
    }
    const float largest = -lowest >= highest ? lowest : highest;
    const bool is_zero = !is_finite || std::fabs(largest) < kSmallestActivation;
    const uint16_t scale = is_zero ? uint16_t{0} : f32_to_bf16(largest / -8.0f);
    const float inverse = is_zero ? 0.0f : 1.0f / bf16_to_f32(scale);
    const auto nibble = [&](size_t i) {
      if (is_zero || i >= count) return kNibbleZero;
      const float rounded = (x[begin + i] * inverse + kRoundMagic) - kRoundMagic;
      return static_cast<int>(rounded < kHighestCode ? rounded : kHighestCode) + kNibbleZero;
    };
    for (size_t i = 0; i < half; ++i) {
      codes[begin / 2 + i] = static_cast<uint8_t>(nibble(i) | nibble(half + i) << 4);
    }
    scales[begin / kValueGroup] = scale;
  }
}

namespace {

consteval Products scalar_products() {
  Products products = {};
  for (const NumberFormatRow& row : kNumberFormats.of) {
    Product& product = products.of[place_of(row.number_format)];
    product = is_integer(row.number_format) ? Product{.codes = matmul_codes_scalar}
                                            : Product{.floats = matmul_floats_scalar};
  }
  return products;
}

}  // namespace

const Kernels kScalarKernels = {
    .quantize_row = quantize_row_scalar,
    .quantize_values = quantize_values_scalar,
    .products = scalar_products(),
    .rms_norm = rms_norm_scalar,
    .rope = rope_scalar,
    .silu_mul = silu_mul_scalar,
    .add_scaled = add_scaled_scalar,
    .scores_q8 = scores_q8_scalar,
    .scores_f32 = kHasKvF32 ? scores_f32_scalar : nullptr,
    .exp_sum = exp_sum_scalar,
    .weighted_sum_q8 = weighted_sum_q8_scalar,
    .weighted_sum_f32 = kHasKvF32 ? weighted_sum_f32_scalar : nullptr,
    .weighted_sum_q4 = weighted_sum_q4_scalar,
    .variants = {},  // kScalarVariants, where the build has them
    .states = {},    // kScalarStates, the same
};

}  // namespace cria
