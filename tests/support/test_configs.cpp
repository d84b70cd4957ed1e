#include "tests/support/test_configs.h"

#include "tests/support/matrix_formats.h"

namespace cria::test {

format::ModelConfig small_config(format::NumberFormat weights, uint16_t group_size) {
  format::ModelConfig c = {};
  c.architecture = static_cast<uint32_t>(format::Architecture::kLlama);
  c.n_layers = 2;
  c.d_model = 64;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.head_dim = 16;
  c.d_ff = 96;
  c.vocab_size = 50;
  c.max_context = 128;
  c.planned_context = 64;
  c.rms_epsilon = 1e-5f;
  c.embedding_multiplier = 1.0f;
  c.residual_multiplier = 1.0f;
  c.attention_multiplier = 0.25f;
  c.logits_divisor = 1.0f;
  c.rope_factor = 1.0f;
  c.bos_token = 1;
  c.n_end_tokens = 1;
  c.end_tokens[0] = 2;
  set_all_formats(&c, {weights, group_size});
  return c;
}

}  // namespace cria::test
