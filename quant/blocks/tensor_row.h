// How a block says which tensors it has: rows from which the file's directory, its sizes and the
// memory of a model follow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/format/built_in.h"
#include "quant/format/format.h"
#include "quant/format/reason.h"

namespace cria {

// Of a matrix in any of kMatrixFormats, a matrix that is always f32, or f32 values in plain order.
// Matrices have layout tile16.
enum class TensorForm : uint8_t { kMatrix, kFloatMatrix, kVector };

// A number that follows from a config. Outside the layers the kind is all zero.
using Size = uint32_t (*)(const format::ModelScalars& model, const format::LayerKind& kind);

// A tensor of a model or of a layer, in the order of the file.
struct TensorRow {
  format::TensorRole role;
  TensorForm form;
  Size n_matrices;  // of a stack; 1 for others, 0: there is no such tensor
  Size rows;        // 1 for vectors
  Size cols;
};

namespace extents {

using format::LayerKind;
using format::ModelScalars;

inline constexpr Size kOne = [](const ModelScalars&, const LayerKind&) -> uint32_t { return 1; };
inline constexpr Size kModel = [](const ModelScalars& m, const LayerKind&) { return m.d_model; };
// Elements of a d_model wide norm: weights, with layer norm biases too.
inline constexpr Size kNorm = [](const ModelScalars& m, const LayerKind& k) {
  const bool has_biases = kHasVariants && k.norm == static_cast<uint8_t>(format::Norm::kLayerNorm);
  return m.d_model * (has_biases ? 2u : 1u);
};

// A field of a kind, and rows of its heads together.
template <auto LayerKind::*field>
inline constexpr Size kField =
    [](const ModelScalars&, const LayerKind& k) -> uint32_t { return k.*field; };
inline constexpr Size kQueries = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return uint32_t{k.n_query_heads} * k.key_dim;
};
inline constexpr Size kKeys = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return uint32_t{k.n_key_heads} * k.key_dim;
};
inline constexpr Size kValues = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return uint32_t{k.n_value_heads} * k.value_dim;
};
// What query heads bring back.
inline constexpr Size kAttended = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return uint32_t{k.n_query_heads} * k.value_dim;
};

// 1 where a kind has all of these flags.
template <uint32_t flags>
inline constexpr Size kWith = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return (k.flags & flags) == flags ? 1 : 0;
};

}  // namespace extents

namespace rows {

using format::TensorRole;

constexpr TensorRow vector(TensorRole role, Size n, Size there = extents::kOne) {
  return {role, TensorForm::kVector, there, extents::kOne, n};
}
constexpr TensorRow matrix(TensorRole role, Size n_rows, Size n_cols, Size there = extents::kOne) {
  return {role, TensorForm::kMatrix, there, n_rows, n_cols};
}
constexpr TensorRow float_matrix(TensorRole role, Size n_rows, Size n_cols) {
  return {role, TensorForm::kFloatMatrix, extents::kOne, n_rows, n_cols};
}

// Parts of a block's list, one after the other.
template <size_t... n>
[[nodiscard]] consteval auto joined(const TensorRow (&... parts)[n]) {
  std::array<TensorRow, (n + ...)> all = {};
  size_t at = 0;
  const auto put = [&](std::span<const TensorRow> part) {
    for (const TensorRow& row : part) all[at++] = row;
  };
  (put(parts), ...);
  return all;
}

}  // namespace rows
}  // namespace cria
