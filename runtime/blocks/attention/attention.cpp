#include "runtime/blocks/attention/attention.h"

#include <cstring>

#include "quant/blocks/attention_format.h"
#include "runtime/base/features.h"
#include "runtime/base/scalar_math.h"
#include "runtime/blocks/attention/attend.h"

namespace cria::attention {

using format::TensorRole;

namespace {

// Norms of queries and keys are those of each head or of a whole projection.
void normalize_projection(const Step& s, const Layer& layer, TensorRole norm, size_t n_heads,
                          float* x) {
  const bool is_whole = kHasVariants && layer.has(format::flag::kWholeNorms);
  const size_t key_dim = layer.kind->key_dim;
  normalize_heads(s, layer.kind->inner_epsilon, layer.find(norm), is_whole ? 1 : n_heads,
                  is_whole ? n_heads * key_dim : key_dim, x);
}

void clip(const Step& s, float limit, size_t n_values, float* x) {
  for_values(s, n_values, [&](size_t begin, size_t end) {
    s.kernels.variants.clip(x + begin, end - begin, limit);
  });
}

// What is done to queries, keys and values before they are turned, in this order.
void prepare(const Step& s, const Layer& layer, const Scratch& t) {
  const LayerKind& k = *layer.kind;
  const size_t n_values = s.n() * k.n_value_heads * k.value_dim;
  if (kHasVariants && layer.has(format::flag::kValuesAreKeys)) {
    std::memcpy(t.v, t.k, n_values * sizeof(float));
  }
  normalize_projection(s, layer, TensorRole::kQNorm, k.n_query_heads, t.q);
  normalize_projection(s, layer, TensorRole::kKNorm, k.n_key_heads, t.k);
  if constexpr (!kHasVariants) return;
  normalize_heads(s, k.inner_epsilon, layer.find(TensorRole::kVNorm), k.n_value_heads, k.value_dim,
                  t.v);
  if (k.qkv_clip == 0) return;
  clip(s, k.qkv_clip, s.n() * k.n_query_heads * k.key_dim, t.q);
  if (!has_own_rows(k)) return;
  clip(s, k.qkv_clip, s.n() * k.n_key_heads * k.key_dim, t.k);
  clip(s, k.qkv_clip, n_values, t.v);
}

// What is done to what the heads bring back, before the output matrix.
void finish(const Step& s, const Layer& layer, const Scratch& t, float* y) {
  const LayerKind& k = *layer.kind;
  const size_t width = size_t{k.n_query_heads} * k.value_dim;
  if (layer.has(format::flag::kOutputGate)) {
    for_values(s, s.n() * width, [&](size_t begin, size_t end) {
      s.kernels.variants.sigmoid_mul(y + begin, t.gate + begin, end - begin);
    });
  }
  normalize_heads(s, k.inner_epsilon, layer.find(TensorRole::kMixerInnerNorm), 1, width, y);
}

// Parts of the cache are keys, values, and the scales of both.
Attending attending(const Step& s, const LayerKind& k, const Scratch& t) {
  const uint32_t q_width = uint32_t{k.n_query_heads} * k.key_dim;
  const uint32_t y_width = uint32_t{k.n_query_heads} * k.value_dim;
  return {.keys = {{k.key_dim, 0, 2}},
          .values = {k.value_dim, 1, 3},
          .queries = {{t.q, q_width, k.key_dim}},
          .out = {s.normed, y_width, k.value_dim},
          .queries_at_once = queries_at_once(s.shape),
          .tiles = t.tiles,
          .tile_bytes = t.tile_bytes};
}

void store_keys_values(const Step& s, const Layer& layer, const Attending& a, const Scratch& t) {
  const LayerKind& k = *layer.kind;
  for (size_t i = 0; i < s.n() * k.n_key_heads; ++i) {
    const Row& from = s.rows[i / k.n_key_heads];
    const KvCache& kv = from.states->caches[layer.state_kind];
    const size_t row = kv.row(layer.state_layer, i % k.n_key_heads, from.position);
    store(s.kernels, kv, row, a.keys[0], t.k + i * k.key_dim);
    store(s.kernels, kv, row, a.values, t.v + i * k.value_dim);
  }
}

}  // namespace

void grow(const Step& s, const LayerKind& k, float* q) {
  // Firmware without such kinds has no use for divisions of doubles.
  if constexpr (!kHasVariants) return;
  const size_t width = size_t{k.n_query_heads} * k.key_dim;
  for (size_t i = 0; i < s.n(); ++i) {
    const uint32_t periods = s.rows[i].position / k.query_growth_period;
    const double growth = static_cast<double>(k.query_growth) * ln(1.0 + periods);
    const auto factor = static_cast<float>(1.0 + growth);
    for (size_t d = 0; d < width; ++d) q[i * width + d] *= factor;
  }
}

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  const LayerKind& k = *layer.kind;
  Carver carver(s.scratch);
  const Scratch t = lay_out(s.model(), k, s.shape, &carver);
  CRIA_TRY(linear(s, in,
                  {{layer.find(TensorRole::kQ), t.q},
                   {layer.find(TensorRole::kK), t.k},
                   {layer.find(TensorRole::kV), t.v},
                   {layer.find(TensorRole::kMixerGate), t.gate}}));
  prepare(s, layer, t);
  rotate(s, k.rope_table, k.n_query_heads, k.key_dim, t.q);
  if (kHasVariants && k.query_growth != 0) grow(s, k, t.q);
  const Attending a = attending(s, k, t);
  if (has_own_rows(k)) {
    rotate(s, k.rope_table, k.n_key_heads, k.key_dim, t.k);
    store_keys_values(s, layer, a, t);
  }
  attend(s, layer, a);
  if constexpr (kHasVariants) finish(s, layer, t, s.normed);
  return linear(s, s.normed, {{layer.find(TensorRole::kO), out}});
}

void turn_back_row(const TurnBack& t, size_t width, uint8_t* row, uint8_t* scales) {
  if (kHasKvF32 && t.kv_format == KvFormat::kF32) {
    t.kernels.rope(reinterpret_cast<float*>(row), 1, 2 * t.n_pairs, t.cosines, t.sines);
    return;
  }
  auto* const codes = reinterpret_cast<int8_t*>(row);
  auto* const scale = reinterpret_cast<float*>(scales);
  for (size_t d = 0; d < width; ++d) t.scratch[d] = static_cast<float>(codes[d]) * *scale;
  t.kernels.rope(t.scratch, 1, 2 * t.n_pairs, t.cosines, t.sines);
  t.kernels.quantize_row(t.scratch, width, width, width, codes, scale, nullptr);
}

void turn_back(const TurnBack& t, uint8_t* const* rows) {
  turn_back_row(t, t.kind.key_dim, rows[0], rows[2]);
}

}  // namespace cria::attention
