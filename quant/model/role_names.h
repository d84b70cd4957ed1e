// What people call tensors. Firmware that names none links none of it.
#pragma once

#include <cstddef>

#include "quant/model/model_layout.h"

namespace cria {

// For people: "layers.3.q" or "embedding". Writes at most capacity bytes with the final zero.
void tensor_name(const TensorSpec& spec, char* out, size_t capacity);
// For people: "q" or "embedding".
[[nodiscard]] const char* role_name(format::TensorRole role);

}  // namespace cria
