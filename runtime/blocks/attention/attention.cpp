#include "runtime/blocks/attention/attention.h"

#include "quant/blocks/attention.h"
#include "runtime/base/features.h"
#include "runtime/blocks/attention/attend.h"

namespace cria::attention {

using format::TensorRole;

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  const format::LayerKind& k = *layer.kind;
  Carver carver(s.scratch);
  const Scratch t = lay_out(s.model(), k, s.shape, &carver);
  CRIA_TRY(linear(s, in,
                  {{layer.find(TensorRole::kQ), t.q},
                   {layer.find(TensorRole::kK), t.k},
                   {layer.find(TensorRole::kV), t.v}}));
  const float epsilon = k.inner_epsilon;
  normalize_heads(s, epsilon, layer.find(TensorRole::kQNorm), k.n_query_heads, k.key_dim, t.q);
  normalize_heads(s, epsilon, layer.find(TensorRole::kKNorm), k.n_key_heads, k.key_dim, t.k);
  rotate(s, k.rope_table, k.n_query_heads, k.key_dim, t.q);
  rotate(s, k.rope_table, k.n_key_heads, k.key_dim, t.k);
  store_keys_values(s, layer, t);
  attend(s, layer, t, s.normed);
  return linear(s, s.normed, {{layer.find(TensorRole::kO), out}});
}

void turn_back(const TurnBack& t, uint8_t* const* rows) {
  if (kHasKvF32 && t.kv_format == KvFormat::kF32) {
    t.kernels.rope(reinterpret_cast<float*>(rows[0]), 1, 2 * t.n_pairs, t.cosines, t.sines);
    return;
  }
  const size_t key_dim = t.kind.key_dim;
  auto* const codes = reinterpret_cast<int8_t*>(rows[0]);
  auto* const scale = reinterpret_cast<float*>(rows[2]);
  for (size_t d = 0; d < key_dim; ++d) t.scratch[d] = static_cast<float>(codes[d]) * *scale;
  t.kernels.rope(t.scratch, 1, 2 * t.n_pairs, t.cosines, t.sines);
  t.kernels.quantize_row(t.scratch, key_dim, key_dim, key_dim, codes, scale, nullptr);
}

}  // namespace cria::attention
