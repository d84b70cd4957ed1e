#include "tests/support/test_configs.h"

#include "tests/support/matrix_formats.h"

namespace cria::test {

format::LayerKind blank_kind() {
  format::LayerKind k = {};
  k.norm = static_cast<uint8_t>(format::Norm::kRms);
  k.rope_table = format::kNoTable;
  k.shared_with = format::kNoKind;
  return k;
}

format::LayerKind llama_kind() {
  format::LayerKind k = blank_kind();
  k.mixer = static_cast<uint8_t>(format::Mixer::kAttention);
  k.feed_forward = static_cast<uint8_t>(format::FeedForward::kDense);
  k.activation = static_cast<uint8_t>(format::Activation::kSilu);
  k.flags = format::flag::kMixerNorm | format::flag::kFfnNorm | format::flag::kGated;
  k.n_query_heads = 4;
  k.n_key_heads = 2;
  k.n_value_heads = 2;
  k.key_dim = 16;
  k.value_dim = 16;
  k.rope_table = 0;
  k.score_multiplier = 0.25f;
  k.norm_epsilon = 1e-5f;
  k.inner_epsilon = 1e-5f;
  k.d_ff = 96;
  return k;
}

namespace {

void set_heads(format::LayerKind* k, uint16_t n_query, uint16_t n_key, uint16_t n_value) {
  k->n_query_heads = n_query;
  k->n_key_heads = n_key;
  k->n_value_heads = n_value;
  k->key_dim = 12;
  k->value_dim = 10;
}

void set_mixer(format::Mixer mixer, format::LayerKind* k) {
  k->mixer = static_cast<uint8_t>(mixer);
  switch (mixer) {
    case format::Mixer::kNothing:
      return;
    case format::Mixer::kAttention:
      set_heads(k, 6, 2, 2);
      k->score_multiplier = 0.25f;
      break;
    case format::Mixer::kLatentAttention:
      set_heads(k, 6, 1, 1);
      k->query_rank = 14;
      k->latent_rank = 18;
      k->shared_key_dim = 4;
      k->score_multiplier = 0.25f;
      break;
    case format::Mixer::kDeltaRule:
      set_heads(k, 2, 2, 6);
      k->unit_epsilon = 1e-6f;
      k->conv_taps = 4;
      break;
    case format::Mixer::kStateSpace:
      set_heads(k, 2, 2, 6);
      k->conv_taps = 4;
      break;
    case format::Mixer::kShortConvolution:
      k->conv_taps = 3;
      break;
  }
  k->flags |= format::flag::kMixerNorm;
}

void set_feed_forward(format::FeedForward feed_forward, format::LayerKind* k) {
  k->feed_forward = static_cast<uint8_t>(feed_forward);
  if (feed_forward == format::FeedForward::kNothing) return;
  k->flags |= format::flag::kFfnNorm;
  k->activation = static_cast<uint8_t>(format::Activation::kSilu);
  k->d_ff = 22;
  if (feed_forward == format::FeedForward::kDense) return;
  k->expert_ff = 26;
  k->n_experts = 8;
  k->n_chosen = 2;
  k->router_score = static_cast<uint8_t>(format::RouterScore::kSoftmax);
  k->router_scale = 1.0f;
}

}  // namespace

format::LayerKind small_kind(format::Mixer mixer, format::FeedForward feed_forward) {
  format::LayerKind k = blank_kind();
  k.norm_epsilon = 1e-5f;
  k.inner_epsilon = 1e-5f;
  set_mixer(mixer, &k);
  set_feed_forward(feed_forward, &k);
  return k;
}

void bring_out(format::LayerKind* kind) {
  constexpr float kNextToNothing = 1e-20f;
  kind->flags |= format::flag::kMixerOutNorm;
  kind->norm_epsilon = kind->inner_epsilon = kNextToNothing;
  if (kind->unit_epsilon != 0) kind->unit_epsilon = kNextToNothing;
}

ConfigParts small_config(format::Mixer mixer, format::FeedForward feed_forward) {
  ConfigParts c = small_config(format::NumberFormat::kF32, 0);
  c.kinds = {small_kind(mixer, feed_forward)};
  set_all_formats(&c, kMatrixFormats[0]);
  return c;
}

ConfigParts small_config(format::NumberFormat weights, uint16_t group_size) {
  ConfigParts c;
  format::ModelScalars& m = c.model;
  m.architecture = static_cast<uint32_t>(format::Architecture::kLlama);
  m.d_model = 64;
  m.vocab_size = 50;
  m.max_context = 128;
  m.planned_context = 64;
  m.final_norm = static_cast<uint32_t>(format::Norm::kRms);
  m.norm_epsilon = 1e-5f;
  m.embedding_multiplier = 1.0f;
  m.residual_multiplier = 1.0f;
  m.logits_divisor = 1.0f;
  m.bos_token = 1;
  m.n_end_tokens = 1;
  m.end_tokens[0] = 2;
  m.n_rope_tables = 1;
  m.rope_tables[0] = {8, 1.0f, 0, 0};
  c.kinds = {llama_kind()};
  c.layers = {0, 0};
  set_all_formats(&c, {weights, group_size});
  return c;
}

void set_head_dim(ConfigParts* c, uint16_t head_dim) {
  for (format::LayerKind& k : c->kinds) k.key_dim = k.value_dim = head_dim;
  c->model.rope_tables[0].n_pairs = head_dim / 2;
}

ConfigParts parts_of(const Config& c) {
  return {*c.model,
          {c.kinds.begin(), c.kinds.end()},
          {c.layers.begin(), c.layers.end()},
          {c.counts.begin(), c.counts.end()}};
}

std::vector<uint8_t> section_of(const Config& c) {
  ConfigBytes section;
  const size_t n_bytes = write_config(c, &section);
  return {section.bytes, section.bytes + n_bytes};
}

}  // namespace cria::test
