#include "converter/tensor_source.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "converter/tensor_views.h"
#include "quant/blocks/tensor_row.h"

namespace cria::converter {
namespace {

using format::TensorRole;

// Rows of a heads' tensor that rotate: the last n_paired of each n.
struct Pairs {
  uint64_t n;
  uint64_t n_paired;
};

// Of queries and keys and their biases; {}: of none.
Pairs pairs_of(const Config& config, const TensorSpec& spec) {
  const TensorRole role = without_bias(spec.role);
  if (role != TensorRole::kQ && role != TensorRole::kK) return {};
  const format::LayerKind& kind = config.kinds[spec.kind];
  if (kind.rope_table == format::kNoTable) return {};
  if (kind.mixer != static_cast<uint8_t>(format::Mixer::kLatentAttention)) {
    return {kind.key_dim, kind.key_dim};
  }
  return {role == TensorRole::kQ ? kind.key_dim : kind.shared_key_dim, kind.shared_key_dim};
}

bool is_plain_norm(TensorRole role) {
  constexpr TensorRole kNorms[] = {TensorRole::kMixerNorm, TensorRole::kMixerOutNorm,
                                   TensorRole::kFfnNorm,   TensorRole::kFfnOutNorm,
                                   TensorRole::kQNorm,     TensorRole::kKNorm,
                                   TensorRole::kFinalNorm};
  return std::find(std::begin(kNorms), std::end(kNorms), role) != std::end(kNorms);
}

// Whether channels of a convolution lie as those of values, keys and queries.
bool has_values_first(const Config& config, const TensorSpec& spec) {
  return is_state_space(config.kinds[spec.kind]);
}

// A row, or a value, for each channel, those of queries first, then keys, then values.
std::unique_ptr<SourceTensor> queries_first(const Config& config, const TensorSpec& spec,
                                            const SourceTensor& whole) {
  const format::LayerKind& kind = config.kinds[spec.kind];
  const uint64_t n_queries = extents::kQueries(*config.model, kind);
  const uint64_t n_keys = extents::kKeys(*config.model, kind);
  const uint64_t n_values = extents::kValues(*config.model, kind);
  return reorder_rows(
      whole, {{n_values + n_keys, n_queries}, {n_values, n_keys}, {uint64_t{0}, n_values}});
}

// How much a tensor of the delta rule has of each value head: rows, or columns.
struct ValueHeads {
  uint64_t n_each;  // 0: it has none
  bool are_columns;
};
ValueHeads value_heads_of(const Config& config, const TensorSpec& spec) {
  const format::LayerKind& kind = config.kinds[spec.kind];
  switch (without_bias(spec.role)) {
    case TensorRole::kV:
    case TensorRole::kMixerGate:
      return {kind.value_dim, false};
    case TensorRole::kDecayIn:
    case TensorRole::kBetaIn:
    case TensorRole::kDecay:
    case TensorRole::kDecayBias:
      return {1, false};
    case TensorRole::kO:
      return {kind.value_dim, true};
    default:
      return {0, false};
  }
}

// Heads in the order of their key heads, of those that lie one of each key head after the other.
std::vector<RowRange> heads_in_order(const format::LayerKind& kind, uint64_t first,
                                     uint64_t n_each) {
  const uint64_t n_keys = kind.n_key_heads;
  std::vector<RowRange> ranges;
  if (first != 0) ranges.push_back({0, first});
  for (uint64_t head = 0; head < kind.n_value_heads; ++head) {
    const uint64_t of_key = kind.n_value_heads / n_keys;
    ranges.push_back({first + (head % of_key * n_keys + head / of_key) * n_each, n_each});
  }
  return ranges;
}

RowGroups rows_of_heads(const Config& config, const TensorSpec& spec, const Recipe& recipe,
                        uint64_t n_rows) {
  const uint64_t n_heads = config.kinds[spec.kind].n_query_heads;
  return {recipe.all / n_heads, recipe.first / n_heads, n_rows / n_heads, 0};
}

}  // namespace

std::vector<uint64_t> stored_shape(const Config& config, const TensorSpec& spec,
                                   const Recipe& recipe) {
  const uint64_t all = recipe.all;
  const uint64_t cols = spec.shape.cols;
  const uint64_t d_model = config.model->d_model;
  switch (recipe.take) {
    case Take::kColumns:
      return {cols, all};
    case Take::kSlices:
      return {spec.n_matrices, all, cols};
    case Take::kHeads:
      return {spec.n_matrices * all, cols};
    case Take::kTurnedHeads:
      return {spec.n_matrices * all, spec.shape.rows};
    case Take::kWithBias:
      return {cols / 2};
    case Take::kFlat:
      return {cols / d_model, d_model};
    case Take::kTaps: {
      const uint64_t n_taps = config.kinds[spec.kind].conv_taps;
      return {cols / n_taps, 1, n_taps};
    }
    case Take::kOfLayers: {
      const uint64_t n_layers = config.model->n_layers;
      return {all / n_layers, n_layers * cols};
    }
    case Take::kOfHeads:
    case Take::kDecay:
    case Take::kOnes:
    case Take::kByRoot:
    case Take::kRows:
      break;
  }
  if (!spec.is_matrix()) return {all};
  return {all, cols};
}

const SourceTensor* make_source(const Config& config, const TensorSpec& spec, const Recipe& recipe,
                                const StoredForm& form, std::vector<const SourceTensor*> stored,
                                std::vector<std::unique_ptr<SourceTensor>>* views) {
  const auto keep = [views](std::unique_ptr<SourceTensor> view) -> const SourceTensor* {
    views->push_back(std::move(view));
    return views->back().get();
  };
  if (recipe.take == Take::kOnes) return keep(ones(spec.shape.cols));
  const SourceTensor* source =
      stored.size() == 1 ? stored.front() : keep(join_rows(std::move(stored)));
  const uint64_t rows = spec.is_matrix() ? spec.shape.rows : spec.shape.cols;
  switch (recipe.take) {
    case Take::kColumns:
      return keep(turn_columns(*source, spec.shape.cols, recipe.first, rows));
    case Take::kTurnedHeads:
      source = keep(pick_rows(*source, {recipe.all, recipe.first, spec.shape.cols, 0}));
      return keep(turn_columns(*source, spec.shape.cols, 0, rows));
    case Take::kWithBias:
      return source;
    case Take::kFlat:
      return keep(flatten(*source));
    case Take::kTaps:
      if (has_values_first(config, spec)) source = keep(queries_first(config, spec, *source));
      if (form.has_tiled_values) {
        const format::LayerKind& kind = config.kinds[spec.kind];
        const uint64_t n_others =
            extents::kQueries(*config.model, kind) + extents::kKeys(*config.model, kind);
        source = keep(reorder_rows(*source, heads_in_order(kind, n_others, kind.value_dim)));
      }
      source = keep(turn_columns(*source, source->n_rows(), 0, source->n_cols()));
      return keep(flatten(*source));
    case Take::kDecay:
      if (!form.has_decays) source = keep(negative_exp(*source));
      break;
    case Take::kByRoot:
      return keep(over_root(*source));
    case Take::kOfLayers:
      return keep(split_rows(*source, config.model->n_layers));
    case Take::kOfHeads:
      return keep(pick_rows(*source, rows_of_heads(config, spec, recipe, rows)));
    case Take::kOnes:
    case Take::kRows:
    case Take::kSlices:
    case Take::kHeads:
      break;
  }
  if (rows != recipe.all) source = keep(pick_rows(*source, {recipe.all, recipe.first, rows, 0}));
  if (spec.role == TensorRole::kConvolutionBias && has_values_first(config, spec)) {
    source = keep(queries_first(config, spec, *source));
  }
  if (form.norms_add_one && is_plain_norm(spec.role)) source = keep(add_one(*source));
  const bool is_in_layer = spec.layer != format::kNone;
  if (form.has_tiled_values && is_in_layer && is_delta_rule(config.kinds[spec.kind])) {
    const ValueHeads heads = value_heads_of(config, spec);
    const format::LayerKind& kind = config.kinds[spec.kind];
    if (heads.n_each != 0) {
      std::vector<RowRange> ranges = heads_in_order(kind, 0, heads.n_each);
      source = keep(heads.are_columns ? reorder_columns(*source, std::move(ranges))
                                      : reorder_rows(*source, std::move(ranges)));
    }
  }
  const Pairs pairs = form.has_pairs ? pairs_of(config, spec) : Pairs{};
  if (pairs.n != 0) source = keep(pick_rows(*source, {pairs.n, 0, pairs.n, pairs.n_paired}));
  return source;
}

}  // namespace cria::converter
