#include "runtime/blocks/dense/dense.h"

#include "quant/blocks/feed_forward.h"

namespace cria::dense {

using format::TensorRole;

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  Carver carver(s.scratch);
  const Scratch t = lay_out(s.model(), *layer.kind, s.shape, &carver);
  CRIA_TRY(linear(s, in,
                  {{layer.find(TensorRole::kGate), t.gate}, {layer.find(TensorRole::kUp), t.up}}));
  for_values(s, s.n() * layer.kind->d_ff, [&](size_t begin, size_t end) {
    s.kernels.silu_mul(t.gate + begin, t.up + begin, end - begin);
  });
  return linear(s, t.gate, {{layer.find(TensorRole::kDown), out}});
}

}  // namespace cria::dense
