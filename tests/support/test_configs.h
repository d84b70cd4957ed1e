// Model configs that tests share.
#pragma once

#include "quant/format.h"

namespace cria::test {

// A valid Llama of two layers: 64 wide, 4 heads over 2 key-value heads, 96 wide FFN, 50 tokens.
[[nodiscard]] format::ModelConfig small_config(format::NumberFormat weights, uint16_t group_size);

}  // namespace cria::test
