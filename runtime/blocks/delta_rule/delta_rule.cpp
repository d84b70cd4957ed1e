#include "runtime/blocks/delta_rule/delta_rule.h"

#if CRIA_WITH_RECURRENT

#include "runtime/base/scalar_math.h"
#include "runtime/blocks/recurrence/state_heads.h"

namespace cria::delta_rule {

using format::TensorRole;
using recurrences::HeadRow;
using recurrences::Scratch;

namespace {

// The state takes what it lacks of the row's value, as far as beta says.
void remember(const Kernels& kernels, const format::LayerKind& k, float beta, const HeadRow& h) {
  float missing[format::kMaxHeadDim];
  kernels.states.recall_values(h.from, h.key, k.key_dim, k.value_dim, missing);
  for (size_t j = 0; j < k.value_dim; ++j) {
    missing[j] = (h.value[j] - missing[j] * h.pace.decay) * beta;
  }
  kernels.states.advance_state(h.from, {h.pace.decay, h.key, missing, h.query}, k.key_dim,
                               k.value_dim, h.to, h.value);
}

}  // namespace

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  const format::LayerKind& k = *layer.kind;
  Carver carver(s.scratch);
  const Scratch t = recurrences::lay_out(s.model(), k, s.shape, &carver);
  CRIA_TRY(recurrences::project(s, layer, t, in));
  recurrences::convolve_heads(s, layer, t, true);
  const float* const norm = layer.find(TensorRole::kMixerInnerNorm)->values();
  recurrences::for_heads(s, layer, t, [&](const HeadRow& h) {
    const float beta = t.beta[h.row * k.n_value_heads + h.head];
    remember(s.kernels, k, 1.0f / (1.0f + exp_f32(-beta)), h);
    s.kernels.rms_norm(h.value, norm, k.value_dim, k.inner_epsilon, h.value);
    s.kernels.silu_mul(h.gate, h.value, k.value_dim);
  });
  return linear(s, t.gate, {{layer.find(TensorRole::kO), out}});
}

}  // namespace cria::delta_rule

#endif  // CRIA_WITH_RECURRENT
