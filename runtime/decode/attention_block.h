// The block that mixes positions: attention between its matrices.
#pragma once

#include "runtime/decode/layer_step.h"

namespace cria {

//   in, out [rows][d_model]; out is overwritten
[[nodiscard]] Status attention(const Step& s, const Layer& layer, const float* in, float* out);

}  // namespace cria
