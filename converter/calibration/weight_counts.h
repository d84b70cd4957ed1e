// How many weights the matrices of a model have, whatever their formats: what work and memory
// follow from.
#pragma once

#include <cstdint>

#include "quant/model/model_config.h"

namespace cria::converter {

struct WeightCounts {
  uint64_t all = 0;
  uint64_t in_layers = 0;       // and what is projected to per-layer embeddings
  uint64_t read_in_layers = 0;  // by a token: of experts those that it chooses
  uint64_t largest_layer = 0;
  uint64_t largest_matrix = 0;  // of layers; of a stack one
  uint64_t widest = 0;          // columns of a matrix of layers
  // Columns of all inputs that a block's matrices have, experts aside; those that share one count
  // it once.
  uint64_t inputs_of_block = 0;
  uint32_t n_matrices = 0;  // tensors, of layers and per-layer embeddings
};

[[nodiscard]] WeightCounts count_weights(const Config& config);

// Matrices whose rows are those that come to an expert.
[[nodiscard]] bool is_of_experts(format::TensorRole role);

}  // namespace cria::converter
