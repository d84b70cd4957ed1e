// Which experts a row reads, and what each counts.
#pragma once

#include "quant/format/format.h"
#include "runtime/kernels/kernels.h"

namespace cria::experts {

// A kind's router, besides its matrix.
struct Router {
  const format::LayerKind& kind;
  const float* choice_bias;  // [n_experts], only for the choice, or null
  const float* factors;      // [n_experts] or null
};

// The choice of a row.
//   scores   [n_experts] what the router's matrix gives; overwritten
//   ranked   [n_experts] scratch
//   chosen   [n_chosen] experts, the first choice first: of equals the lower index, a NaN last
//   weights  [n_chosen] of theirs
void choose(const Kernels& kernels, const Router& router, float* scores, float* ranked,
            uint32_t* chosen, float* weights);

}  // namespace cria::experts
