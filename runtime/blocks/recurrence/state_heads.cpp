#include "runtime/blocks/recurrence/state_heads.h"

#if CRIA_WITH_RECURRENT

#include <cmath>
#include <cstring>

#include "runtime/base/scalar_math.h"

namespace cria::recurrences {

using format::TensorRole;

namespace {

// x / sqrt(sum of squares + epsilon) * multiplier of a head of some rows, by the kernel of norms:
// its mean is the sum by n.
void make_unit(const Kernels& kernels, const Run& run, const Columns& columns, float epsilon,
               float multiplier) {
  const auto n = static_cast<float>(columns.n);
  const float weight = multiplier / std::sqrt(n);
  float weights[format::kMaxHeadDim];
  for (size_t i = 0; i < columns.n; ++i) weights[i] = weight;
  for (size_t row = run.first; row < run.first + run.n; ++row) {
    float* const x = columns.x + row * columns.stride;
    kernels.rms_norm(x, weights, columns.n, epsilon / n, x);
  }
}

// Heads of q, then k, then v, whose channels follow each other.
struct Heads {
  float* x;
  size_t n;
  size_t width;
};

}  // namespace

Status project(const Step& s, const Layer& layer, const Scratch& t, const float* in) {
  CRIA_TRY(linear(s, in,
                  {{layer.find(TensorRole::kQ), t.q},
                   {layer.find(TensorRole::kK), t.k},
                   {layer.find(TensorRole::kV), t.v},
                   {layer.find(TensorRole::kMixerGate), t.gate}}));
  return linear(
      s, in,
      {{layer.find(TensorRole::kDecayIn), t.decay}, {layer.find(TensorRole::kBetaIn), t.beta}});
}

void convolve_heads(const Step& s, const Layer& layer, const Scratch& t, bool has_unit_lengths) {
  const format::LayerKind& k = *layer.kind;
  const Convolution w = convolution_of(layer, kChannels(s.model(), k), kColumns, true);
  const Heads all[] = {{t.q, k.n_query_heads, k.key_dim},
                       {t.k, k.n_key_heads, k.key_dim},
                       {t.v, k.n_value_heads, k.value_dim}};
  const float length_of_q = 1.0f / std::sqrt(static_cast<float>(k.key_dim));
  const auto convolve_head = [&](size_t number) {
    size_t part = 0;
    size_t channel = 0;
    for (; number >= all[part].n; ++part) {
      number -= all[part].n;
      channel += all[part].n * all[part].width;
    }
    const size_t at = number * all[part].width;
    const Columns columns = {all[part].x + at, all[part].n * all[part].width, channel + at,
                             all[part].width};
    for_runs(s, layer, [&](const Run& run) {
      convolve(s.kernels, run, w, columns);
      if (!has_unit_lengths || part == 2) return;
      make_unit(s.kernels, run, columns, k.unit_epsilon, part == 0 ? length_of_q : 1.0f);
    });
  };
  const size_t n = size_t{k.n_query_heads} + k.n_key_heads + k.n_value_heads;
  parallel_for(s.threads, Even{n}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) convolve_head(i);
  });
}

const float* state_before(const Run& run, size_t head, size_t n_values) {
  if (const float* before = run.before(kStates)) return before + head * n_values;
  float* const state = run.behind(kStates) + head * n_values;
  std::memset(state, 0, n_values * sizeof(float));
  return state;
}

Pace pace_of(float projected, float bias, float decay) {
  const float step = softplus(projected + bias);
  return {step, exp_f32(decay * step)};
}

}  // namespace cria::recurrences

#endif  // CRIA_WITH_RECURRENT
