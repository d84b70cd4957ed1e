// Latent attention: keys and values of all heads come from one compressed row a position, beside a
// short key that they share.
#pragma once

#include "quant/blocks/tensor_row.h"

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

}  // namespace cria::latent
