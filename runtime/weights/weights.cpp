#include "runtime/weights/weights.h"

namespace cria {
namespace {

// Every bias has the role of a matrix before it, of as many rows.
consteval bool biases_follow() {
  for (size_t i = 0; i < std::size(kTensorRoles); ++i) {
    const TensorRoleRow& row = kTensorRoles[i];
    if (!is_bias(row.role)) continue;
    if (i == 0 || kTensorRoles[i - 1].matrix == kNoMatrix || kTensorRoles[i - 1].rows != row.cols ||
        kTensorRoles[i - 1].place != row.place) {
      return false;
    }
  }
  return true;
}
static_assert(biases_follow());

// Gives the roles of a config their places and returns how many tensors that makes.
uint8_t find_places(const format::ModelConfig& config, bool in_layers, RolePlaces* places) {
  *places = {};
  for (uint8_t& place : places->of) place = kNoPlace;
  uint8_t n = 0;
  for (const TensorRoleRow& row : kTensorRoles) {
    if ((row.place == TensorPlace::kInLayers) != in_layers || !is_there(row, config)) continue;
    places->of[static_cast<size_t>(row.role)] =
        is_bias(row.role) ? static_cast<uint8_t>(n - 1) : n++;
  }
  return n;
}

}  // namespace

void lay_out_weights(const format::ModelConfig& config, uint8_t* memory, Weights* weights) {
  *weights = {};
  const size_t n_outside = find_places(config, false, &weights->outside_places);
  const size_t n_in_layer = find_places(config, true, &weights->layer_places);
  uint8_t* const lm_head =
      &weights->outside_places.of[static_cast<size_t>(format::TensorRole::kLmHead)];
  if (*lm_head == kNoPlace) {  // tied
    *lm_head = weights->outside_places.of[static_cast<size_t>(format::TensorRole::kEmbedding)];
  }
  auto* layers = reinterpret_cast<Layer*>(memory);
  auto* tensors = reinterpret_cast<Tensor*>(layers + config.n_layers);
  weights->layers = {layers, config.n_layers};
  weights->tensors = {tensors, n_outside + config.n_layers * n_in_layer};
  for (Tensor& tensor : weights->tensors) tensor = {};
  weights->outside = {&weights->outside_places, tensors};
  tensors += n_outside;
  for (uint32_t i = 0; i < config.n_layers; ++i, tensors += n_in_layer) {
    layers[i] = {{&weights->layer_places, tensors}, 0, i};
  }
}

Tensor* tensor_of(Weights* weights, format::TensorRole role, uint32_t layer) {
  return layer == format::kNone ? weights->outside.find(role) : weights->layers[layer].find(role);
}

}  // namespace cria
