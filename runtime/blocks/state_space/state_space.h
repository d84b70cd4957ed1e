// State spaces (SSD, Mamba 2): what Granite 4.0 -h has in place of most of its attention
// (docs/model_format.md, what a layer computes).
#pragma once

#include "runtime/blocks/blocks.h"

namespace cria::state_space {

[[nodiscard]] Status forward(const Step& s, const Layer& layer, const float* in, float* out);

}  // namespace cria::state_space
