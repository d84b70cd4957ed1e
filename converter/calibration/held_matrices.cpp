#include "converter/calibration/held_matrices.h"

namespace cria::converter {

void HeldMatrices::read_layer(uint32_t layer) {
  for (uint32_t i = 0; i < weights_.tensors().size(); ++i) {
    const PlannedTensor& tensor = weights_.tensors()[i];
    if (tensor.spec.role == format::TensorRole::kPerLayerProjection) {
      held_[{i, layer}] = weights_.panels(tensor, format_, layer);
    }
    if (tensor.spec.layer != layer || !tensor.spec.is_matrix()) continue;
    for (uint32_t index = 0; index < tensor.spec.n_matrices; ++index) {
      held_[{i, index}] = weights_.panels(tensor, format_, index);
    }
  }
}

Products HeldMatrices::products() {
  return [this](std::span<const LinearCall> calls, uint32_t index, const float* x, size_t n) {
    for (const LinearCall& call : calls) {
      multiply(pool_, x, n, of(call.tensor->number, index), call.y);
    }
  };
}

}  // namespace cria::converter
