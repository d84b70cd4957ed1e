#include "runtime/blocks/latent/latent.h"

#if CRIA_WITH_LATENT

#include <cstring>

#include "quant/blocks/latent_format.h"
#include "runtime/base/features.h"
#include "runtime/blocks/attention/attend.h"
#include "runtime/blocks/attention/attention.h"

namespace cria::latent {

using attention::Attending;
using attention::HeadVectors;
using format::TensorRole;

namespace {

static_assert(sizeof(Segment) == kSegmentBytes);

// Parts of the cache are rows, shared keys where there are any, and the scales of both.
uint8_t vectors_of(const LayerKind& k) { return k.shared_key_dim != 0 ? 2 : 1; }

uint32_t own_key_dim(const LayerKind& k) { return uint32_t{k.key_dim} - k.shared_key_dim; }

Attending attending(const Step& s, const LayerKind& k, const Scratch& t) {
  const uint8_t scales = vectors_of(k);
  const HeadVectors absorbed = {t.absorbed, k.latent_rank, s.n() * k.latent_rank};
  const HeadVectors turned = {t.q + own_key_dim(k), size_t{k.n_query_heads} * k.key_dim, k.key_dim};
  return {
      .keys = {{k.latent_rank, 0, scales}, {k.shared_key_dim, 1, static_cast<uint8_t>(scales + 1)}},
      .values = {k.latent_rank, 0, scales},
      .queries = {absorbed, turned},
      .out = absorbed,
      .queries_at_once = attention::kQueriesAtOnce,
      .tiles = t.tiles,
      .tile_bytes = t.tile_bytes};
}

// q, and what its layer keeps of each position, from the layer's input.
Status project(const Step& s, const Layer& layer, const Scratch& t, const float* in) {
  const LayerKind& k = *layer.kind;
  const Tensor* const down = layer.find(TensorRole::kQDown);
  const Tensor* const q = layer.find(TensorRole::kQ);
  CRIA_TRY(linear(s, in,
                  {{down, t.q_down},
                   {down == nullptr ? q : nullptr, t.q},
                   {layer.find(TensorRole::kLatentDown), t.row},
                   {layer.find(TensorRole::kK), t.shared_key}}));
  normalize_heads(s, k.inner_epsilon, layer.find(TensorRole::kLatentNorm), 1, k.latent_rank, t.row);
  if (down == nullptr) return Status::kOk;
  normalize_heads(s, k.inner_epsilon, layer.find(TensorRole::kQDownNorm), 1, k.query_rank,
                  t.q_down);
  return linear(s, t.q_down, {{q, t.q}});
}

void keep(const Step& s, const Layer& layer, const Attending& a, const Scratch& t) {
  const LayerKind& k = *layer.kind;
  for (size_t i = 0; i < s.n(); ++i) {
    const KvCache& kv = s.rows[i].states->caches[layer.state_kind];
    const size_t row = kv.row(layer.state_layer, 0, s.rows[i].position);
    attention::store(s.kernels, kv, row, a.keys[0], t.row + i * k.latent_rank);
    if (k.shared_key_dim == 0) continue;
    attention::store(s.kernels, kv, row, a.keys[1], t.shared_key + i * k.shared_key_dim);
  }
}

// Every head's matrix has all rows.
std::span<const Segment> segments_of_heads(const Step& s, const LayerKind& k, const Scratch& t) {
  auto* const segments = reinterpret_cast<Segment*>(t.segments);
  const auto n = static_cast<uint32_t>(s.n());
  for (uint32_t head = 0; head < k.n_query_heads; ++head) segments[head] = {head, head * n, n};
  return {segments, k.n_query_heads};
}

// Copies n values of each row and head.
void copy_heads(const Step& s, size_t n_heads, const HeadVectors& from, const HeadVectors& to,
                size_t n) {
  parallel_for(s.threads, Even{s.n() * n_heads}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      std::memcpy(to.at(i / n_heads, i % n_heads), from.at(i / n_heads, i % n_heads),
                  n * sizeof(float));
    }
  });
}

}  // namespace

// Keys and values of heads are never made: key_up turns queries into what meets the compressed row,
// and value_up turns what comes of it into values.
Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  const LayerKind& k = *layer.kind;
  Carver carver(s.scratch);
  const Scratch t = lay_out(s.model(), k, s.shape, &carver);
  CRIA_TRY(project(s, layer, t, in));
  const uint32_t own = own_key_dim(k);
  if (k.shared_key_dim != 0) {
    rotate(s, k.rope_table, k.n_query_heads, k.key_dim, t.q + own);
    rotate(s, k.rope_table, 1, k.shared_key_dim, t.shared_key);
  }
  if (kHasVariants && k.query_growth != 0) attention::grow(s, k, t.q);
  const Attending a = attending(s, k, t);
  keep(s, layer, a, t);

  const size_t n_heads = k.n_query_heads;
  const std::span<const Segment> segments = segments_of_heads(s, k, t);
  copy_heads(s, n_heads, {t.q, n_heads * k.key_dim, k.key_dim}, {t.heads, own, s.n() * own}, own);
  CRIA_TRY(linear(s, t.heads, segments, {{layer.find(TensorRole::kKeyUp), t.absorbed}}));
  attention::attend(s, layer, a);
  CRIA_TRY(linear(s, t.absorbed, segments, {{layer.find(TensorRole::kValueUp), t.heads}}));
  const size_t width = k.value_dim;
  copy_heads(s, n_heads, {t.heads, width, s.n() * width}, {s.normed, n_heads * width, width},
             width);
  return linear(s, s.normed, {{layer.find(TensorRole::kO), out}});
}

void turn_back(const TurnBack& t, uint8_t* const* rows) {
  const size_t width = t.kind.shared_key_dim;
  if (width != 0) attention::turn_back_row(t, width, rows[1], rows[3]);
}

}  // namespace cria::latent

#endif  // CRIA_WITH_LATENT
