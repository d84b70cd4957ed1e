// The gated delta rule: what Qwen3.5 and Qwen3-Next have in place of most of their attention
// (docs/model_format.md, what a layer computes).
#pragma once

#include "runtime/blocks/blocks.h"

namespace cria::delta_rule {

[[nodiscard]] Status forward(const Step& s, const Layer& layer, const float* in, float* out);

}  // namespace cria::delta_rule
