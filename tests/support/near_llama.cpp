#include "tests/support/near_llama.h"

#include "tests/support/matrix_formats.h"
#include "tests/support/test_configs.h"

namespace cria::test {
namespace {

using format::ModelConfig;

// Weights of build_model are near 0.03: what follows makes up for it.
ModelConfig base_config(MatrixFormat f) {
  ModelConfig c = small_config(f.number_format, f.group_size);
  c.attention_multiplier = 1e4f;
  c.residual_multiplier = 20.0f;
  c.logits_divisor = 0.005f;
  return c;
}

void set_everything(ModelConfig* c) {
  c->n_layers = 5;
  c->head_dim = 24;
  c->rotary_dim = 18;
  c->flags = format::kQkNorm | format::kLongRope | format::kQkvBias | format::kTiedEmbedding;
  c->attention_multiplier = 2e3f;
  c->original_context = 48;
  c->rope_factor = 1.25f;
  c->no_rope_period = 3;
  c->no_rope_layers[0] = 0b010;
}

NearLlama made(const char* name, ModelConfig config, ModelConfig without, MatrixFormat f) {
  set_all_formats(&config, f);
  set_all_formats(&without, f);
  return {name, config, without};
}

}  // namespace

std::vector<NearLlama> near_llamas(MatrixFormat f) {
  std::vector<NearLlama> all;
  const ModelConfig base = base_config(f);

  ModelConfig c = base;
  c.architecture = static_cast<uint32_t>(format::Architecture::kQwen2);
  c.flags = format::kQkvBias | format::kTiedEmbedding;
  ModelConfig without = c;
  without.flags = format::kTiedEmbedding;
  all.push_back(made("qwen2", c, without, f));

  c = base;
  c.architecture = static_cast<uint32_t>(format::Architecture::kQwen3);
  c.flags = format::kQkNorm;
  c.head_dim = 24;
  c.attention_multiplier = 2e3f;
  without = c;
  without.flags = 0;
  all.push_back(made("qwen3", c, without, f));

  c = base;
  c.architecture = static_cast<uint32_t>(format::Architecture::kSmolLm3);
  c.n_layers = 5;
  c.no_rope_period = 4;
  c.no_rope_layers[0] = 0b1000;
  without = c;
  without.no_rope_period = 0;
  without.no_rope_layers[0] = 0;
  all.push_back(made("smollm3", c, without, f));

  c = base;
  c.architecture = static_cast<uint32_t>(format::Architecture::kPhi3);
  c.rotary_dim = 12;
  c.sliding_window = 20;
  without = c;
  without.rotary_dim = 4;
  all.push_back(made("phi3", c, without, f));

  c = base;
  c.architecture = static_cast<uint32_t>(format::Architecture::kPhi3);
  c.flags = format::kLongRope;
  c.original_context = 96;
  c.rope_factor = 1.25f;
  without = c;
  without.rope_factor = 1.0f;
  all.push_back(made("longrope", c, without, f));

  c = base;
  c.architecture = static_cast<uint32_t>(format::Architecture::kGraniteHybrid);
  c.no_rope_period = 1;
  c.no_rope_layers[0] = 1;
  without = c;
  without.no_rope_period = 0;
  without.no_rope_layers[0] = 0;
  all.push_back(made("granite4", c, without, f));

  c = base;
  set_everything(&c);
  without = base;
  without.n_layers = c.n_layers;
  without.head_dim = c.head_dim;
  without.rotary_dim = c.rotary_dim;
  without.attention_multiplier = c.attention_multiplier;
  without.flags = format::kTiedEmbedding;
  all.push_back(made("everything", c, without, f));
  return all;
}

}  // namespace cria::test
