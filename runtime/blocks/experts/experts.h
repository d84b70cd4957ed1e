// A mixture of experts: of many MLPs a router chooses some for each row (docs/model_format.md, what
// a layer computes).
#pragma once

#include "runtime/blocks/layer_step.h"

namespace cria::experts {

[[nodiscard]] Status forward(const Step& s, const Layer& layer, const float* in, float* out);

}  // namespace cria::experts
