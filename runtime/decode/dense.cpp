#include "runtime/decode/dense.h"

namespace cria {
namespace {

// gate = silu(gate) * up, [rows][d_ff].
void activate(const Step& s, float* gate, const float* up) {
  // Cut into blocks so that one row, too, goes to all threads.
  constexpr size_t kBlock = 1024;
  const size_t total = s.rows.size() * s.config.d_ff;
  const size_t n_blocks = (total + kBlock - 1) / kBlock;
  const Activate multiply = s.kernels.activations[place_of(Activation::kSilu)];
  parallel_ranges(s.threads, n_blocks, [&](size_t begin, size_t end, size_t /*task*/) {
    const size_t from = begin * kBlock;
    const size_t to = end * kBlock < total ? end * kBlock : total;
    multiply(gate + from, up + from, to - from);
  });
}

}  // namespace

Status dense(const Step& s, const Layer& layer, const float* in, float* out) {
  using Role = format::TensorRole;
  const BlockScratch& t = s.blocks;
  CRIA_TRY(linear(s, in, {{layer.find(Role::kGate), t.gate}, {layer.find(Role::kUp), t.up}}));
  activate(s, t.gate, t.up);
  return linear(s, t.gate, {{layer.find(Role::kDown), out}});
}

}  // namespace cria
