#include "runtime/decode/attention_block.h"

#include "quant/model_layout.h"
#include "quant/tensor_roles.h"
#include "runtime/decode/attention.h"

namespace cria {
namespace {

using Role = format::TensorRole;

// x [rows][n_heads][head_dim], each head by itself; weight null: left as they are.
void normalize_heads(const Step& s, const Tensor* weight, size_t n_heads, float* x) {
  if (weight == nullptr) return;
  const size_t head_dim = s.config.head_dim;
  parallel_ranges(
      s.threads, s.rows.size() * n_heads, [&](size_t begin, size_t end, size_t /*task*/) {
        for (size_t i = begin; i < end; ++i) {
          float* head = x + i * head_dim;
          s.kernels.rms_norm(head, weight->floats(), head_dim, s.config.rms_epsilon, head);
        }
      });
}

// x [rows][n_heads][head_dim], of each head the first rotary_dim elements.
void rotate(const Step& s, size_t n_heads, float* x) {
  const size_t head_dim = s.config.head_dim;
  const size_t turned = rotary_dim(s.config);
  // Heads that are turned as a whole stand side by side.
  const size_t at_once = turned == head_dim ? n_heads : 1;
  parallel_ranges(s.threads, s.rows.size(), [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      for (size_t head = 0; head < n_heads; head += at_once) {
        s.kernels.rope(x + (i * n_heads + head) * head_dim, at_once, turned,
                       s.cosines + i * turned / 2, s.sines + i * turned / 2);
      }
    }
  });
}

}  // namespace

Status attention(const Step& s, const Layer& layer, const float* in, float* out) {
  const format::ModelConfig& c = s.config;
  const BlockScratch& t = s.blocks;
  const AttentionTools tools = {
      c, s.kernels, s.threads, t.attention, t.attention_per_thread, t.attention_queries};
  CRIA_TRY(linear(
      s, in,
      {{layer.find(Role::kQ), t.q}, {layer.find(Role::kK), t.k}, {layer.find(Role::kV), t.v}}));
  normalize_heads(s, layer.find(Role::kQNorm), c.n_heads, t.q);
  normalize_heads(s, layer.find(Role::kKNorm), c.n_kv_heads, t.k);
  if (has_rope(c, layer.place)) {
    rotate(s, c.n_heads, t.q);
    rotate(s, c.n_kv_heads, t.k);
  }
  store_keys_values(tools, layer.place, s.rows, t.k, t.v);
  attend(tools, layer.place, s.rows, t.q, s.normed);
  return linear(s, s.normed, {{layer.find(Role::kO), out}});
}

}  // namespace cria
