#include "converter/tensor_source.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "converter/tensor_views.h"

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
    case Take::kTaps:
      return {d_model, 1, cols / d_model};
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
      source = keep(turn_columns(*source, source->n_rows(), 0, source->n_cols()));
      return keep(flatten(*source));
    case Take::kRows:
    case Take::kSlices:
    case Take::kHeads:
      break;
  }
  if (rows != recipe.all) source = keep(pick_rows(*source, {recipe.all, recipe.first, rows, 0}));
  if (form.norms_add_one && is_plain_norm(spec.role)) source = keep(add_one(*source));
  const Pairs pairs = form.has_pairs ? pairs_of(config, spec) : Pairs{};
  if (pairs.n != 0) source = keep(pick_rows(*source, {pairs.n, 0, pairs.n, pairs.n_paired}));
  return source;
}

}  // namespace cria::converter
