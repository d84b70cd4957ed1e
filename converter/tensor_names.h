// What the tensors of a layer are called in a checkpoint, and which of them are stored as one.
#pragma once

#include <string>

#include "converter/architecture_table.h"
#include "quant/model_layout.h"

namespace cria::converter {

inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
inline constexpr const char* kLmHeadName = "lm_head.weight";

// name without what wrappers of a module put into it as they save it: those of torch.compile, of
// data parallel training and of its sharded kind.
[[nodiscard]] std::string without_wrappers(std::string name);

// Where a tensor stands: rows [first_row, first_row + its own) of n_rows that the name has. A
// tensor by itself is all of them.
struct TensorPart {
  std::string name;
  uint64_t first_row;
  uint64_t n_rows;
};

// Of a matrix, rows are its output rows; of a vector, its values. The rope frequencies, which no
// checkpoint needs to store, have no name.
[[nodiscard]] TensorPart checkpoint_part(const format::ModelConfig& model, const TensorSpec& spec);

}  // namespace cria::converter
