#include "runtime/blocks/dense/dense.h"

#include "quant/blocks/feed_forward_formats.h"
#include "runtime/base/features.h"

namespace cria::dense {

using format::TensorRole;

namespace {

// hidden = the kind's activation of it, times up where there is a gate.
void activate(const Step& s, const LayerKind& k, const Scratch& t, float* hidden) {
  const bool is_gated = has_flag(k, format::flag::kGated);
  const bool is_silu = k.activation == static_cast<uint8_t>(format::Activation::kSilu);
  for_values(s, s.n() * k.d_ff, [&](size_t begin, size_t end) {
    if (!kHasVariants || (is_gated && is_silu)) {
      return s.kernels.silu_mul(hidden + begin, t.up + begin, end - begin);
    }
    s.kernels.variants.activate[k.activation - 1](hidden + begin, is_gated ? t.up + begin : nullptr,
                                                  end - begin, k.activation_alpha,
                                                  k.activation_limit);
  });
}

}  // namespace

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  const LayerKind& k = *layer.kind;
  Carver carver(s.scratch);
  const Scratch t = lay_out(s.model(), k, s.shape, &carver);
  CRIA_TRY(linear(s, in,
                  {{layer.find(TensorRole::kGate), t.gate}, {layer.find(TensorRole::kUp), t.up}}));
  float* const hidden = kHasVariants && !has_flag(k, format::flag::kGated) ? t.up : t.gate;
  activate(s, k, t, hidden);
  if constexpr (kHasVariants) {
    normalize_heads(s, k.inner_epsilon, layer.find(TensorRole::kFfnInnerNorm), 1, k.d_ff, hidden);
  }
  return linear(s, hidden, {{layer.find(TensorRole::kDown), out}});
}

}  // namespace cria::dense
