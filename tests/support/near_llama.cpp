#include "tests/support/near_llama.h"

#include <utility>

#include "tests/support/matrix_formats.h"
#include "tests/support/test_configs.h"

namespace cria::test {
namespace {

namespace flag = format::flag;
using format::Architecture;
using format::LayerKind;

// Weights of build_model are near 0.03: what follows makes up for it.
ConfigParts base_config(MatrixFormat f) {
  ConfigParts c = small_config(f.number_format, f.group_size);
  c.kinds[0].score_multiplier = 1e4f;
  c.model.residual_multiplier = 20.0f;
  c.model.logits_divisor = 0.005f;
  return c;
}

ConfigParts base_config(MatrixFormat f, Architecture architecture) {
  ConfigParts c = base_config(f);
  c.model.architecture = static_cast<uint32_t>(architecture);
  return c;
}

// Layers without RoPE among those of kind 0: a kind of their own.
void set_layers(ConfigParts* c, std::vector<uint8_t> layers) {
  LayerKind standing = c->kinds[0];
  standing.rope_table = format::kNoTable;
  c->kinds.push_back(standing);
  c->layers = std::move(layers);
}

// Heads that are wider than d_model would have them.
void widen_heads(ConfigParts* c) {
  set_head_dim(c, 24);
  c->kinds[0].score_multiplier = 2e3f;
}

NearLlama made(const char* name, ConfigParts config, ConfigParts without, MatrixFormat f) {
  set_all_formats(&config, f);
  set_all_formats(&without, f);
  return {name, std::move(config), std::move(without)};
}

// Experts beside an MLP with a gate, and in groups.
NearLlama experts(MatrixFormat f) {
  ConfigParts c = base_config(f, Architecture::kQwen2Moe);
  LayerKind& k = c.kinds[0];
  k.feed_forward = static_cast<uint8_t>(format::FeedForward::kExperts);
  k.flags |= flag::kNormalizedChoice | flag::kSharedGate;
  k.router_score = static_cast<uint8_t>(format::RouterScore::kSoftmax);
  k.expert_ff = 40;
  k.n_experts = 5;
  k.n_chosen = 2;
  k.router_scale = 2.0f;
  LayerKind grouped = k;
  grouped.flags &= ~flag::kSharedGate;
  grouped.flags |= flag::kChoiceBias;
  grouped.router_score = static_cast<uint8_t>(format::RouterScore::kSigmoid);
  grouped.d_ff = 0;
  grouped.n_experts = 8;
  grouped.n_groups = 4;
  grouped.n_groups_chosen = 2;
  grouped.group_rank = 2;
  c.kinds.push_back(grouped);
  c.layers = {0, 1, 0, 1};
  ConfigParts without = c;
  for (LayerKind& kind : without.kinds) kind.n_chosen = 1;
  return made("experts", c, without, f);
}

// Heads of two widths, last layers that read keys and values of earlier ones, and per-layer
// embeddings.
NearLlama gemma4(MatrixFormat f) {
  ConfigParts c = base_config(f, Architecture::kGemma4);
  c.model.flags = format::kTiedEmbedding;
  c.model.residual_multiplier = 1.0f;
  c.model.per_layer_width = 20;
  c.model.per_layer_table_multiplier = 4.0f;
  c.model.per_layer_input_multiplier = 0.25f;
  c.model.per_layer_sum_multiplier = 0.75f;
  c.model.n_rope_tables = 2;
  c.model.rope_tables[0] = {12, 1.0f, 0, 0};
  c.model.rope_tables[1] = {8, 1.0f, 0, 0};
  LayerKind sliding = c.kinds[0];
  sliding.activation = static_cast<uint8_t>(format::Activation::kGelu);
  sliding.flags |= flag::kMixerOutNorm | flag::kFfnOutNorm | flag::kHeadNorms | flag::kValueNorm |
                   flag::kPerLayerInput | flag::kLayerScale;
  sliding.score_multiplier = 5e2f;
  sliding.rope_table = 1;
  sliding.window = 20;
  LayerKind full = sliding;
  full.key_dim = full.value_dim = 24;
  full.rope_table = 0;
  full.window = 0;
  const auto sharing = [](LayerKind kind, uint8_t owner) {
    kind.flags &= ~flag::kValueNorm;
    kind.shared_with = owner;
    kind.d_ff *= 2;
    return kind;
  };
  c.set_layers(
      std::vector<LayerKind>{sliding, sliding, full, sharing(sliding, 0), sharing(full, 1)});
  ConfigParts without = c;
  for (LayerKind& kind : without.kinds) kind.flags &= ~flag::kPerLayerInput;
  return made("gemma4", c, without, f);
}

// Layer norms, learned positions and a plain MLP.
NearLlama gpt2(MatrixFormat f) {
  ConfigParts c = base_config(f, Architecture::kGpt2);
  c.model.flags = format::kTiedEmbedding | format::kLearnedPositions;
  c.model.final_norm = static_cast<uint32_t>(format::Norm::kLayerNorm);
  c.model.n_rope_tables = 0;
  c.model.rope_tables[0] = {};
  LayerKind& k = c.kinds[0];
  k.norm = static_cast<uint8_t>(format::Norm::kLayerNorm);
  k.activation = static_cast<uint8_t>(format::Activation::kGelu);
  k.flags =
      flag::kMixerNorm | flag::kFfnNorm | flag::kMixerBias | flag::kOutputBias | flag::kFfnBias;
  k.rope_table = format::kNoTable;
  k.n_key_heads = k.n_value_heads = k.n_query_heads;
  ConfigParts without = c;
  without.model.flags = format::kTiedEmbedding;
  return made("gpt2", c, without, f);
}

// Rows and keys that all heads share; compressed queries in some layers, a window in others.
NearLlama latent(MatrixFormat f) {
  ConfigParts c = base_config(f, Architecture::kDeepseekV3);
  c.model.rope_tables[0] = {4, 1.25f, 0, 0};
  LayerKind k = small_kind(format::Mixer::kLatentAttention, format::FeedForward::kNothing);
  k.latent_rank = 42;
  k.key_dim = 20;
  k.shared_key_dim = 8;
  k.rope_table = 0;
  k.score_multiplier = 3e4f;
  LayerKind other = small_kind(format::Mixer::kNothing, format::FeedForward::kDense);
  other.flags |= flag::kGated;
  const auto mixed = [&](uint16_t query_rank, uint32_t window, uint8_t rope_table) {
    k.query_rank = query_rank;
    k.window = window;
    k.rope_table = rope_table;
    return k;
  };
  const auto layers = [&](uint8_t table) {
    return std::vector<LayerKind>{mixed(14, 0, table), other, mixed(0, 20, table)};
  };
  ConfigParts without = c;
  c.set_layers(layers(0));
  without.set_layers(layers(format::kNoTable));
  return made("latent", c, without, f);
}

// Convolutions of two lengths around attention.
NearLlama lfm2(MatrixFormat f) {
  ConfigParts c = base_config(f, Architecture::kLfm2);
  LayerKind shorter = small_kind(format::Mixer::kShortConvolution, format::FeedForward::kNothing);
  bring_out(&shorter);
  LayerKind longer = shorter;
  longer.conv_taps = 5;
  longer.flags |= flag::kMixerBias | flag::kOutputBias | flag::kConvolutionBias;
  LayerKind attention = c.kinds[0];
  attention.flags |= flag::kHeadNorms;
  ConfigParts without = c;
  c.set_layers(std::vector<LayerKind>{shorter, attention, longer});
  shorter.conv_taps = 2;
  without.set_layers(std::vector<LayerKind>{shorter, attention, longer});
  return made("lfm2", c, without, f);
}

// A matrix a head that each position changes, in layers around attention.
NearLlama with_states(const char* name, format::Mixer mixer, Architecture architecture,
                      MatrixFormat f) {
  ConfigParts c = base_config(f, architecture);
  LayerKind first = small_kind(mixer, format::FeedForward::kDense);
  first.flags |= flag::kGated;
  bring_out(&first);
  LayerKind last = first;
  last.conv_taps = 3;
  last.flags |= flag::kMixerBias | flag::kOutputBias | flag::kConvolutionBias;
  ConfigParts without = c;
  c.set_layers(std::vector<LayerKind>{first, c.kinds[0], last});
  first.conv_taps = 2;
  without.set_layers(std::vector<LayerKind>{first, without.kinds[0], last});
  return made(name, c, without, f);
}

NearLlama with_everything(MatrixFormat f) {
  ConfigParts c = base_config(f);
  widen_heads(&c);
  c.model.flags = format::kTiedEmbedding;
  c.model.rope_tables[0].n_pairs = 9;
  c.layers.assign(5, 0);
  ConfigParts without = c;
  c.kinds[0].flags |= flag::kHeadNorms | flag::kMixerBias;
  c.model.rope_tables[0] = {9, 1.25f, 48, 0};
  set_layers(&c, {0, 1, 0, 0, 1});
  return made("everything", c, without, f);
}

}  // namespace

std::vector<NearLlama> near_llamas(MatrixFormat f) {
  std::vector<NearLlama> all;

  ConfigParts c = base_config(f, Architecture::kQwen2);
  c.model.flags = format::kTiedEmbedding;
  ConfigParts without = c;
  c.kinds[0].flags |= flag::kMixerBias;
  all.push_back(made("qwen2", c, without, f));

  c = base_config(f, Architecture::kQwen3);
  widen_heads(&c);
  without = c;
  c.kinds[0].flags |= flag::kHeadNorms;
  all.push_back(made("qwen3", c, without, f));

  c = base_config(f, Architecture::kSmolLm3);
  c.layers.assign(5, 0);
  without = c;
  set_layers(&c, {0, 0, 0, 1, 0});
  all.push_back(made("smollm3", c, without, f));

  c = base_config(f, Architecture::kPhi3);
  c.model.rope_tables[0].n_pairs = 6;
  c.kinds[0].window = 20;
  without = c;
  without.model.rope_tables[0].n_pairs = 2;
  all.push_back(made("phi3", c, without, f));

  c = base_config(f, Architecture::kPhi3);
  c.model.rope_tables[0].original_context = 96;
  without = c;
  c.model.rope_tables[0].factor = 1.25f;
  all.push_back(made("longrope", c, without, f));

  // The table stays, so that the weights are those of the same seed with RoPE.
  c = base_config(f, Architecture::kGraniteHybrid);
  without = c;
  c.kinds[0].rope_table = format::kNoTable;
  all.push_back(made("granite4", c, without, f));

  all.push_back(gpt2(f));
  all.push_back(gemma4(f));
  all.push_back(latent(f));
  all.push_back(experts(f));
  all.push_back(lfm2(f));
  all.push_back(with_states("qwen3.5", format::Mixer::kDeltaRule, Architecture::kQwen35, f));
  all.push_back(
      with_states("granite4-h", format::Mixer::kStateSpace, Architecture::kGraniteHybrid, f));
  all.push_back(with_everything(f));
  return all;
}

}  // namespace cria::test
