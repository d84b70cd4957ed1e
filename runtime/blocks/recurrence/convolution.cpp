#include "runtime/blocks/recurrence/convolution.h"

#if CRIA_WITH_RECURRENT

namespace cria::recurrences {

using format::TensorRole;

namespace {

// Channels that are convolved together: what they read is on the stack.
constexpr size_t kAtOnce = 64;

struct Ones {
  float values[kAtOnce];
};
constexpr Ones kOnes = [] {
  Ones ones = {};
  for (float& one : ones.values) one = 1.0f;
  return ones;
}();

// The inputs that the next row reads beside its own, in turn.
struct Kept {
  float rows[format::kMaxTaps - 1][kAtOnce];
  size_t n;       // rows
  size_t oldest;  // its place

  [[nodiscard]] size_t place(size_t age) const { return (oldest + age) % n; }
};

void load(const float* before, size_t stride, size_t n, Kept* kept) {
  for (size_t i = 0; i < kept->n; ++i) {
    for (size_t c = 0; c < n; ++c) {
      kept->rows[i][c] = before != nullptr ? before[i * stride + c] : 0.0f;
    }
  }
}

void store(const Kept& kept, size_t stride, size_t n, float* behind) {
  for (size_t i = 0; i < kept.n; ++i) {
    const float* const from = kept.rows[kept.place(i)];
    for (size_t c = 0; c < n; ++c) behind[i * stride + c] = from[c];
  }
}

// x becomes what is convolved, and takes the oldest row's place before. Zeros before the first
// position are multiplied too: a weight that is no number leaves one wherever a chunk begins.
void convolve_row(const Convolution& w, size_t channel, size_t n, Kept* kept, float* x) {
  const float* weights = w.taps + channel;
  const float* input = kept->rows[kept->oldest];
  float sums[kAtOnce];
  for (size_t c = 0; c < n; ++c) sums[c] = weights[c] * input[c];
  for (size_t i = 1; i < kept->n; ++i) {
    weights += w.n_channels;
    input = kept->rows[kept->place(i)];
    for (size_t c = 0; c < n; ++c) sums[c] += weights[c] * input[c];
  }
  weights += w.n_channels;
  float* const newest = kept->rows[kept->oldest];
  for (size_t c = 0; c < n; ++c) {
    newest[c] = x[c];
    sums[c] += weights[c] * newest[c];
  }
  kept->oldest = kept->place(1);
  for (size_t c = 0; c < n; ++c) {
    x[c] = w.bias != nullptr ? sums[c] + w.bias[channel + c] : sums[c];
  }
}

// Up to kAtOnce columns.
void convolve_some(const Kernels& kernels, const Run& run, const Convolution& w,
                   const Columns& columns) {
  const size_t channel = columns.first_channel;
  Kept kept;
  kept.n = w.n_taps - 1;
  kept.oldest = 0;
  const float* const before = run.before(w.part);
  load(before != nullptr ? before + channel : nullptr, w.n_channels, columns.n, &kept);
  for (size_t row = run.first; row < run.first + run.n; ++row) {
    float* const x = columns.x + row * columns.stride;
    convolve_row(w, channel, columns.n, &kept, x);
    if (w.is_silu) kernels.silu_mul(x, kOnes.values, columns.n);
  }
  store(kept, w.n_channels, columns.n, run.behind(w.part) + channel);
}

}  // namespace

Convolution convolution_of(const Layer& layer, size_t n_channels, size_t part, bool is_silu) {
  const Tensor* const bias = layer.find(TensorRole::kConvolutionBias);
  return {layer.find(TensorRole::kConvolution)->values(),
          bias != nullptr ? bias->values() : nullptr,
          layer.kind->conv_taps,
          n_channels,
          part,
          is_silu};
}

void convolve(const Kernels& kernels, const Run& run, const Convolution& w,
              const Columns& columns) {
  for (size_t i = 0; i < columns.n; i += kAtOnce) {
    const size_t n = columns.n - i < kAtOnce ? columns.n - i : kAtOnce;
    convolve_some(kernels, run, w, {columns.x + i, columns.stride, columns.first_channel + i, n});
  }
}

}  // namespace cria::recurrences

#endif  // CRIA_WITH_RECURRENT
