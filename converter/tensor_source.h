// Makes a tensor of the file of those that a checkpoint has for it.
#pragma once

#include <memory>
#include <vector>

#include "converter/source_tensor.h"
#include "converter/tensor_names.h"

namespace cria::converter {

// The shape that each of a recipe's tensors has.
[[nodiscard]] std::vector<uint64_t> stored_shape(const Config& config, const TensorSpec& spec,
                                                 const Recipe& recipe);

// The tensor itself, rows of all matrices of a stack one after the other.
//   stored  those of the recipe's names, which have stored_shape and outlive the result
//   views   gets what the result is made of, which has to outlive it, too
[[nodiscard]] const SourceTensor* make_source(const Config& config, const TensorSpec& spec,
                                              const Recipe& recipe, const StoredForm& form,
                                              std::vector<const SourceTensor*> stored,
                                              std::vector<std::unique_ptr<SourceTensor>>* views);

}  // namespace cria::converter
