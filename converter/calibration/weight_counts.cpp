#include "converter/calibration/weight_counts.h"

#include <algorithm>

#include "quant/model/model_layout.h"

namespace cria::converter {
namespace {

using format::TensorRole;

// Columns of inputs that matrices of a layer do not share with others: those of the block's input
// are shared.
struct Inputs {
  uint64_t of_mixer = 0;
  uint64_t of_feed_forward = 0;
};

bool is_of_feed_forward(TensorRole role) {
  return role == TensorRole::kDown || role == TensorRole::kGate || role == TensorRole::kUp ||
         role == TensorRole::kPerLayerGate || role == TensorRole::kPerLayerOut;
}

// Whether it multiplies its block's input, as others do.
bool shares_inputs(const TensorSpec& spec, uint64_t d_model) {
  return spec.n_matrices == 1 && spec.shape.cols == d_model && spec.role != TensorRole::kO &&
         spec.role != TensorRole::kDown && spec.role != TensorRole::kPerLayerGate &&
         spec.role != TensorRole::kPerLayerOut;
}

}  // namespace

bool is_of_experts(TensorRole role) {
  return role == TensorRole::kExpertGate || role == TensorRole::kExpertUp ||
         role == TensorRole::kExpertDown;
}

WeightCounts count_weights(const Config& config) {
  WeightCounts counts;
  uint32_t layer = format::kNone;
  uint64_t projection = 0;  // that of a layer
  uint64_t of_layer = 0;
  Inputs inputs;
  TensorWalk walk(config);
  for (TensorSpec spec; walk.next({format::NumberFormat::kF32, 0}, &spec);) {
    if (!spec.is_matrix()) continue;
    const uint64_t of_matrix = uint64_t{spec.shape.rows} * spec.shape.cols;
    const uint64_t n = of_matrix * spec.n_matrices;
    counts.all += n;
    if (spec.role == TensorRole::kPerLayerTable) ++counts.n_matrices;
    if (spec.role == TensorRole::kPerLayerProjection) {
      ++counts.n_matrices;
      counts.in_layers += n;
      counts.read_in_layers += n;
      projection = of_matrix;
    }
    if (spec.layer == format::kNone) continue;
    if (spec.layer != layer) {
      layer = spec.layer;
      of_layer = projection;
      inputs = {};
    }
    of_layer += n;
    counts.in_layers += n;
    counts.read_in_layers +=
        is_of_experts(spec.role) ? of_matrix * config.kinds[spec.kind].n_chosen : n;
    ++counts.n_matrices;
    counts.largest_layer = std::max(counts.largest_layer, of_layer);
    counts.largest_matrix = std::max(counts.largest_matrix, of_matrix);
    counts.widest = std::max<uint64_t>(counts.widest, spec.shape.cols);
    if (!shares_inputs(spec, config.model->d_model) && !is_of_experts(spec.role)) {
      (is_of_feed_forward(spec.role) ? inputs.of_feed_forward : inputs.of_mixer) +=
          uint64_t{spec.n_matrices} * spec.shape.cols;
    }
    counts.inputs_of_block =
        std::max(counts.inputs_of_block,
                 config.model->d_model + std::max(inputs.of_mixer, inputs.of_feed_forward));
  }
  return counts;
}

}  // namespace cria::converter
