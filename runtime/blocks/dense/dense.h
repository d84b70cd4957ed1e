// One MLP, gated or plain (docs/model_format.md, what a layer computes).
#pragma once

#include "runtime/blocks/layer_step.h"

namespace cria::dense {

[[nodiscard]] Status forward(const Step& s, const Layer& layer, const float* in, float* out);

}  // namespace cria::dense
