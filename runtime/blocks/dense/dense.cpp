#include "runtime/blocks/dense/dense.h"

#include "runtime/base/features.h"

namespace cria::dense {

using format::TensorRole;

float* activate(const Step& s, const LayerKind& k, float* gate, float* up, size_t n_values) {
  const bool is_gated = !kHasVariants || has_flag(k, format::flag::kGated);
  const bool is_silu = k.activation == static_cast<uint8_t>(format::Activation::kSilu);
  float* const hidden = is_gated ? gate : up;
  for_values(s, n_values, [&](size_t begin, size_t end) {
    if (!kHasVariants || (is_gated && is_silu)) {
      return s.kernels.silu_mul(hidden + begin, up + begin, end - begin);
    }
    s.kernels.variants.activate[k.activation - 1](hidden + begin, is_gated ? up + begin : nullptr,
                                                  end - begin, k.activation_alpha,
                                                  k.activation_limit);
  });
  return hidden;
}

Status multiply(const Step& s, const Layer& layer, const Scratch& t, const float* in, float* out) {
  const LayerKind& k = *layer.kind;
  CRIA_TRY(linear(s, in,
                  {{layer.find(TensorRole::kGate), t.gate}, {layer.find(TensorRole::kUp), t.up}}));
  float* const hidden = activate(s, k, t.gate, t.up, s.n() * k.d_ff);
  if constexpr (kHasVariants) {
    normalize_heads(s, k.inner_epsilon, layer.find(TensorRole::kFfnInnerNorm), 1, k.d_ff, hidden);
  }
  return linear(s, hidden, {{layer.find(TensorRole::kDown), out}});
}

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  Carver carver(s.scratch);
  return multiply(s, layer, lay_out(s.model(), *layer.kind, s.shape, &carver), in, out);
}

}  // namespace cria::dense
