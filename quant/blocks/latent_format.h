// Latent attention: keys and values of all heads come from one compressed row a position, beside a
// short key that they share.
#pragma once

#include "quant/blocks/attention_format.h"

namespace cria::latent {

using namespace extents;

inline constexpr Size kQueryRank = kField<&LayerKind::query_rank>;
inline constexpr Size kLatentRank = kField<&LayerKind::latent_rank>;
inline constexpr Size kSharedKey = kField<&LayerKind::shared_key_dim>;
inline constexpr Size kHeads = kField<&LayerKind::n_query_heads>;
inline constexpr Size kValueDim = kField<&LayerKind::value_dim>;
// What a head's queries have besides the shared key's elements.
inline constexpr Size kOwnKeyDim = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return uint32_t{k.key_dim} - k.shared_key_dim;
};
inline constexpr Size kQueryInput = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  return k.query_rank != 0 ? k.query_rank : m.d_model;
};

// Where queries are compressed, or there is a shared key; with biases.
template <uint16_t LayerKind::*field, uint32_t flags = 0>
inline constexpr Size kWhere = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return k.*field != 0 && (k.flags & flags) == flags ? 1 : 0;
};

inline constexpr TensorRow kRows[] = {
    rows::matrix(format::TensorRole::kQDown, kQueryRank, kModel, kWhere<&LayerKind::query_rank>),
    rows::vector(format::TensorRole::kQDownBias, kQueryRank,
                 kWhere<&LayerKind::query_rank, format::flag::kMixerBias>),
    rows::vector(format::TensorRole::kQDownNorm, kQueryRank, kWhere<&LayerKind::query_rank>),
    rows::matrix(format::TensorRole::kQ, kQueries, kQueryInput),
    rows::matrix(format::TensorRole::kLatentDown, kLatentRank, kModel),
    rows::vector(format::TensorRole::kLatentDownBias, kLatentRank, kWith<format::flag::kMixerBias>),
    rows::vector(format::TensorRole::kLatentNorm, kLatentRank),
    rows::matrix(format::TensorRole::kK, kSharedKey, kModel, kWhere<&LayerKind::shared_key_dim>),
    rows::vector(format::TensorRole::kKBias, kSharedKey,
                 kWhere<&LayerKind::shared_key_dim, format::flag::kMixerBias>),
    rows::matrix(format::TensorRole::kKeyUp, kLatentRank, kOwnKeyDim, kHeads),
    rows::matrix(format::TensorRole::kValueUp, kValueDim, kLatentRank, kHeads),
    rows::matrix(format::TensorRole::kO, kModel, kAttended),
    rows::vector(format::TensorRole::kOBias, kModel, kWith<format::flag::kOutputBias>),
};

inline constexpr uint32_t kFlags = format::flag::kMixerBias | format::flag::kOutputBias;

[[nodiscard]] constexpr const char* check(const LayerKind& k) {
  if (k.n_key_heads != 1) return "n_key_heads"_reason;
  if (k.n_value_heads != 1) return "n_value_heads"_reason;
  if (k.shared_key_dim % 2 != 0 || k.shared_key_dim > k.key_dim - 2) return "shared_key_dim"_reason;
  const uint32_t all_rows = uint32_t{k.n_query_heads} * k.latent_rank;
  return all_rows > format::kMaxModelWidth ? "latent_rank"_reason : nullptr;
}

// Of each position the compressed row and the shared key: codes, then their scales. The row is key
// and value, so it has no codes of 4 bits.
[[nodiscard]] constexpr StateParts state(const ModelScalars&, const LayerKind& k,
                                         KvFormat kv_format) {
  const uint32_t n_vectors = k.shared_key_dim != 0 ? 2 : 1;
  const uint32_t widths[] = {k.latent_rank, k.shared_key_dim};
  const bool is_f32 = kv_format == KvFormat::kF32;
  StateParts s = {1, is_f32 ? n_vectors : 2 * n_vectors, {}, Keeps::kRows};
  for (uint32_t i = 0; i < n_vectors; ++i) {
    s.parts[n_vectors + i] = {StateValues::kScales, sizeof(float)};
    s.parts[i] = {StateValues::kCodes, widths[i]};
    if (is_f32) s.parts[i] = {StateValues::kFloats, widths[i] * uint32_t{sizeof(float)}};
  }
  return s;
}

#if CRIA_WITH_LATENT

[[nodiscard]] constexpr attention::TileWidths tile_widths(const LayerKind& k) {
  return {{k.latent_rank, k.shared_key_dim}, k.latent_rank};
}

inline constexpr uint32_t kSegmentBytes = 12;

// Of all rows of a step. Heads meet one row a position, so many go through a tile together however
// few rows there are.
struct Scratch {
  float* q_down;      // [rows][query_rank]
  float* q;           // [rows][n_query_heads][key_dim]
  float* row;         // [rows][latent_rank]
  float* shared_key;  // [rows][shared_key_dim]
  float* heads;       // [n_query_heads][rows][key_dim - shared_key_dim], then [..][value_dim]
  float* absorbed;    // [n_query_heads][rows][latent_rank]
  uint8_t* segments;  // [n_query_heads] records
  uint8_t* tiles;     // [n_threads][tile_bytes]
  uint64_t tile_bytes;
};

inline Scratch lay_out(const ModelScalars& m, const LayerKind& k, const StepShape& shape,
                       Carver* carver) {
  const uint64_t rows = shape.n_rows;
  const uint64_t heads = rows * k.n_query_heads;
  const uint32_t own = kOwnKeyDim(m, k);
  Scratch s = {};
  s.q_down = carver->take<float>(rows * k.query_rank);
  s.q = carver->take<float>(heads * k.key_dim);
  s.row = carver->take<float>(rows * k.latent_rank);
  s.shared_key = carver->take<float>(rows * k.shared_key_dim);
  s.heads = carver->take<float>(heads * (own > k.value_dim ? own : k.value_dim));
  s.absorbed = carver->take<float>(heads * k.latent_rank);
  s.segments = carver->take<uint8_t>(uint64_t{k.n_query_heads} * kSegmentBytes);
  s.tile_bytes = attention::tile_bytes(tile_widths(k), attention::kQueriesAtOnce);
  s.tiles = carver->take<uint8_t>(product(s.tile_bytes, shape.n_threads));
  return s;
}

#endif  // CRIA_WITH_LATENT

}  // namespace cria::latent
