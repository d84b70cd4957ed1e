// Attention with queries, keys and values of their own: its tensors, its state and its scratch.
#pragma once

#include "quant/blocks/state_part.h"
#include "quant/blocks/tensor_row.h"
#include "quant/numbers/tile16.h"
#include "quant/numbers/value_groups.h"

namespace cria::attention {

using namespace extents;

[[nodiscard]] constexpr bool has_own_rows(const LayerKind& k) {
  return !kHasVariants || k.shared_with == format::kNoKind;
}

// Norms of queries and keys are those of a head or of a whole projection.
[[nodiscard]] constexpr bool has_whole_norms(const LayerKind& k) {
  return kHasVariants && (k.flags & format::flag::kWholeNorms) != 0;
}
inline constexpr Size kQueryNorm = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  return has_whole_norms(k) ? extents::kQueries(m, k) : k.key_dim;
};
inline constexpr Size kKeyNorm = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  return has_whole_norms(k) ? extents::kKeys(m, k) : k.key_dim;
};
[[nodiscard]] constexpr bool has_output_gate(const LayerKind& k) {
  return kHasVariants && (k.flags & format::flag::kOutputGate) != 0;
}

inline constexpr Size kWithNorms = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return (k.flags & format::flag::kHeadNorms) != 0 || has_whole_norms(k) ? 1 : 0;
};
// Where a layer writes keys and values of its own, and has these flags.
template <uint32_t flags>
inline constexpr Size kOwn = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return has_own_rows(k) && (k.flags & flags) == flags ? 1 : 0;
};
template <uint32_t flags>
inline constexpr Size kOwnValues = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  const bool are_keys = kHasVariants && (k.flags & format::flag::kValuesAreKeys) != 0;
  return are_keys ? 0 : kOwn<flags>(m, k);
};
inline constexpr Size kOwnWithNorms = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  return has_own_rows(k) ? kWithNorms(m, k) : 0;
};

inline constexpr TensorRow kRows[] = {
    rows::matrix(format::TensorRole::kQ, kQueries, kModel),
    rows::vector(format::TensorRole::kQBias, kQueries, kWith<format::flag::kMixerBias>),
    rows::matrix(format::TensorRole::kK, kKeys, kModel, kOwn<0>),
    rows::vector(format::TensorRole::kKBias, kKeys, kOwn<format::flag::kMixerBias>),
    rows::matrix(format::TensorRole::kV, kValues, kModel, kOwnValues<0>),
    rows::vector(format::TensorRole::kVBias, kValues, kOwnValues<format::flag::kMixerBias>),
    rows::vector(format::TensorRole::kQNorm, kQueryNorm, kWithNorms),
    rows::vector(format::TensorRole::kKNorm, kKeyNorm, kOwnWithNorms),
#if CRIA_WITH_VARIANTS
    rows::vector(format::TensorRole::kVNorm, kField<&LayerKind::value_dim>,
                 kOwn<format::flag::kValueNorm>),
    rows::matrix(format::TensorRole::kMixerGate, kAttended, kModel,
                 kWith<format::flag::kOutputGate>),
    rows::vector(format::TensorRole::kMixerGateBias, kAttended,
                 kWith<format::flag::kOutputGate | format::flag::kMixerBias>),
    rows::vector(format::TensorRole::kSinks, kField<&LayerKind::n_query_heads>,
                 kWith<format::flag::kSinks>),
    rows::vector(format::TensorRole::kMixerInnerNorm, kAttended,
                 kWith<format::flag::kMixerInnerNorm>),
#endif
    rows::matrix(format::TensorRole::kO, kModel, kAttended),
    rows::vector(format::TensorRole::kOBias, kModel, kWith<format::flag::kOutputBias>),
};

inline constexpr uint32_t kFlags =
    format::flag::kMixerBias | format::flag::kOutputBias | format::flag::kHeadNorms |
    format::flag::kWholeNorms | format::flag::kValueNorm | format::flag::kValuesAreKeys |
    format::flag::kSinks | format::flag::kOutputGate | format::flag::kMixerInnerNorm;

// The field that does not go with the others, or null.
[[nodiscard]] constexpr const char* check(const LayerKind& k) {
  if (k.n_query_heads % k.n_key_heads != 0) return "n_key_heads"_reason;
  if (k.n_value_heads != k.n_key_heads) return "n_value_heads"_reason;
  constexpr uint32_t kBothNorms = format::flag::kHeadNorms | format::flag::kWholeNorms;
  if ((k.flags & kBothNorms) == kBothNorms) return "flags"_reason;
  const bool takes_keys = (k.flags & format::flag::kValuesAreKeys) != 0;
  if (takes_keys && k.key_dim != k.value_dim) return "flags"_reason;
  const uint32_t own = format::flag::kValuesAreKeys | format::flag::kValueNorm;
  return !has_own_rows(k) && (k.flags & own) != 0 ? "flags"_reason : nullptr;
}

// Keys and values of each position and head: codes, then their scales.
[[nodiscard]] constexpr StateParts state(const ModelScalars&, const LayerKind& k,
                                         KvFormat kv_format) {
  if (!has_own_rows(k)) return {};
  StateParts s = {k.n_key_heads, 4, {}, Keeps::kRows};
  s.parts = {{{StateValues::kCodes, k.key_dim},
              {StateValues::kCodes, k.value_dim},
              {StateValues::kScales, sizeof(float)},
              {StateValues::kScales, sizeof(float)}}};
  if (kv_format == KvFormat::kK8V4) {
    s.parts[1] = {StateValues::kNibbles, static_cast<uint32_t>(value_bytes(k.value_dim))};
    s.parts[3] = {StateValues::kSignedScales, static_cast<uint32_t>(value_groups(k.value_dim)) * 2};
  } else if (kv_format == KvFormat::kF32) {
    s.n = 2;
    s.parts[0] = {StateValues::kFloats, k.key_dim * uint32_t{sizeof(float)}};
    s.parts[1] = {StateValues::kFloats, k.value_dim * uint32_t{sizeof(float)}};
  }
  return s;
}

// Positions that are handled at once; scratch does not grow with the context.
inline constexpr uint32_t kTile = 64;
// Queries, heads of rows, that may go through a tile together; one in steps of fewer rows than
// kBlockRows, whose memory is to be small.
inline constexpr uint32_t kQueriesAtOnce = 32;
inline constexpr uint32_t kBlockRows = 32;
inline constexpr uint32_t kQueryBytes = 32;  // a query's record
inline constexpr uint32_t kGroup = 32;       // elements of a query that share a scale

// A position's key may be of several parts, whose products with those of a query add up to a score.
inline constexpr size_t kMostKeyParts = CRIA_WITH_LATENT + 1;
struct TileWidths {
  uint32_t keys[kMostKeyParts];  // of the second part 0: there is none
  uint32_t values;
};

// Parts of queries, quantized.
struct QueryCodes {
  int8_t* codes;  // [queries][width of the part, padded to kGroup]
  float* scales;  // [queries][the same / kGroup]
  int32_t* sums;  // the same, of the codes
};

// What one thread attends with.
struct TileScratch {
  float* scores;     // [queries][kTile], then probabilities
  float* of_part;    // [queries][kTile], scores of the second part of keys
  float* sums;       // [queries][width of values] values weighted so far
  float* rescale;    // [queries] of what stands in sums
  uint8_t* queries;  // [queries] records
  QueryCodes codes[kMostKeyParts];
};

[[nodiscard]] constexpr uint32_t queries_at_once(const StepShape& shape) {
  return shape.n_rows < kBlockRows ? 1 : kQueriesAtOnce;
}

[[gnu::noinline]] inline TileScratch lay_out_tile(const TileWidths& widths, uint32_t n_queries,
                                                  Carver* carver) {
  TileScratch t = {};
  t.scores = carver->take<float>(n_queries, kTile);
  t.sums = carver->take<float>(n_queries, widths.values);
  t.rescale = carver->take<float>(n_queries, 1);
  t.queries = carver->take<uint8_t>(n_queries, kQueryBytes);
  for (size_t i = 0; i < kMostKeyParts && widths.keys[i] != 0; ++i) {
    const uint32_t n_groups = (widths.keys[i] + kGroup - 1) / kGroup;
    t.codes[i].codes = carver->take<int8_t>(n_queries, n_groups * kGroup);
    t.codes[i].scales = carver->take<float>(n_queries, n_groups);
    t.codes[i].sums = carver->take<int32_t>(n_queries, n_groups);
    if (i > 0) t.of_part = carver->take<float>(n_queries, kTile);
  }
  return t;
}

[[nodiscard]] inline uint64_t tile_bytes(const TileWidths& widths, uint32_t n_queries) {
  Carver tile;
  (void)lay_out_tile(widths, n_queries, &tile);
  return tile.taken();
}

[[nodiscard]] constexpr TileWidths tile_widths(const LayerKind& k) {
  return {{k.key_dim}, k.value_dim};
}

// Of all rows of a step.
struct Scratch {
  float* q;        // [rows][n_query_heads * key_dim]
  float* k;        // [rows][n_key_heads * key_dim]
  float* v;        // [rows][n_value_heads * value_dim]
  float* gate;     // [rows][n_query_heads * value_dim], with kOutputGate
  uint8_t* tiles;  // [n_threads][tile_bytes]
  uint64_t tile_bytes;
};

[[gnu::noinline]] inline Scratch lay_out(const ModelScalars& m, const LayerKind& k,
                                         const StepShape& shape, Carver* carver) {
  const uint32_t rows = shape.n_rows;
  Scratch s = {};
  s.q = carver->take<float>(rows, kQueries(m, k));
  s.k = carver->take<float>(rows, kKeys(m, k));
  s.v = carver->take<float>(rows, kValues(m, k));
  s.gate = carver->take<float>(has_output_gate(k) ? rows : 0, kAttended(m, k));
  s.tile_bytes = tile_bytes(tile_widths(k), queries_at_once(shape));
  s.tiles = carver->take<uint8_t>(product(s.tile_bytes, shape.n_threads));
  return s;
}

}  // namespace cria::attention
