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
      source = keep(turn_columns(*source, source->n_rows(), 0, source->n_cols()));
      return keep(flatten(*source));
    case Take::kDecay:
      return keep(negative_exp(*source));
    case Take::kByRoot:
      return keep(over_root(*source));
    case Take::kOfLayers:
      return keep(split_rows(*source, config.model->n_layers));
    case Take::kOnes:
    case Take::kOfHeads:
      return keep(pick_rows(*source, rows_of_heads(config, spec, recipe, rows)));
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
  const Pairs pairs = form.has_pairs ? pairs_of(config, spec) : Pairs{};
  if (pairs.n != 0) source = keep(pick_rows(*source, {pairs.n, 0, pairs.n, pairs.n_paired}));
  return source;
}

}  // namespace cria::converter
