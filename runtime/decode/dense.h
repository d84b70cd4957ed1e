// The dense feed-forward: gate and up, the activation, down.
#pragma once

#include "runtime/decode/layer_step.h"

namespace cria {

//   in, out [rows][d_model]; out is overwritten
[[nodiscard]] Status dense(const Step& s, const Layer& layer, const float* in, float* out);

}  // namespace cria
