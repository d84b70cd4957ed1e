// A tensor whose file has the rows of attention heads in another order than Hugging Face's.
#pragma once

#include <memory>

#include "converter/source_tensor.h"

namespace cria::converter {

// The rows of q or k, or the values of their bias, where the file has the two that rotate together
// one beside the other: in Hugging Face's order they are half a head apart.
//   head_dim  even, and divides the rows
[[nodiscard]] std::unique_ptr<SourceTensor> without_pairs(std::unique_ptr<SourceTensor> tensor,
                                                          uint32_t head_dim);

}  // namespace cria::converter
