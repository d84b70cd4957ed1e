#include "runtime/blocks/state_space/state_space.h"

#if CRIA_WITH_RECURRENT

#include "runtime/blocks/recurrence/state_heads.h"

namespace cria::state_space {

using format::TensorRole;
using recurrences::HeadRow;
using recurrences::Scratch;

namespace {

void advance(const Kernels& kernels, const format::LayerKind& k, float skip, const HeadRow& h) {
  float added[format::kMaxHeadDim];
  float brought[format::kMaxHeadDim];
  for (size_t j = 0; j < k.value_dim; ++j) added[j] = h.value[j] * h.pace.step;
  kernels.states.advance_state(h.from, {h.pace.decay, h.key, added, h.query}, k.key_dim,
                               k.value_dim, h.to, brought);
  for (size_t j = 0; j < k.value_dim; ++j) h.value[j] = brought[j] + skip * h.value[j];
}

// Each group of heads by itself, or all of a row.
void normalize_rows(const Step& s, const Layer& layer, float* x) {
  const format::LayerKind& k = *layer.kind;
  const size_t n_groups = layer.has(format::flag::kGroupedNorm) ? k.n_key_heads : 1;
  const size_t width = size_t{k.n_value_heads} * k.value_dim / n_groups;
  const float* const weights = layer.find(TensorRole::kMixerInnerNorm)->values();
  parallel_for(s.threads, Even{s.n() * n_groups}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      float* const group = x + i * width;
      s.kernels.rms_norm(group, weights + i % n_groups * width, width, k.inner_epsilon, group);
    }
  });
}

}  // namespace

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  const format::LayerKind& k = *layer.kind;
  Carver carver(s.scratch);
  const Scratch t = recurrences::lay_out(s.model(), k, s.shape, &carver);
  CRIA_TRY(recurrences::project(s, layer, t, in));
  recurrences::convolve_heads(s, layer, t, false);
  const float* const skips = layer.find(TensorRole::kSkip)->values();
  recurrences::for_heads(s, layer, t, [&](const HeadRow& h) {
    advance(s.kernels, k, skips[h.head], h);
    s.kernels.silu_mul(h.gate, h.value, k.value_dim);
  });
  normalize_rows(s, layer, t.gate);
  return linear(s, t.gate, {{layer.find(TensorRole::kO), out}});
}

}  // namespace cria::state_space

#endif  // CRIA_WITH_RECURRENT
