#include "tests/support/random_kinds.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <random>

#include "quant/blocks/block_formats.h"
#include "quant/format/architectures.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/test_configs.h"

namespace cria::test {
namespace {

namespace flag = format::flag;
using format::LayerKind;
using format::Mixer;

constexpr uint32_t kMostKinds = 4;
constexpr uint32_t kMostLayers = 7;

class RandomConfig {
 public:
  RandomConfig(uint32_t seed, const RandomKinds& request) : random_(seed), request_(request) {}

  ConfigParts make() {
    set_scalars();
    const uint32_t n_kinds = between(1, kMostKinds);
    while (c_.kinds.size() < n_kinds) c_.kinds.push_back(kind());
    set_layers();
    set_random_formats();
    return c_;
  }

 private:
  uint32_t between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random_()) % (high - low + 1);
  }
  bool one_in(uint32_t n) { return between(1, n) == 1; }
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<uint32_t>(values.size()) - 1)];
  }
  template <typename T>
  T of(const std::vector<T>& values) {
    return values[between(0, static_cast<uint32_t>(values.size()) - 1)];
  }
  uint16_t even(uint32_t most) { return static_cast<uint16_t>(2 * between(1, most / 2)); }
  float epsilon() { return of({1e-5f, 1e-6f, 1e-3f}); }
  float cap() { return request_.has_variants ? of({0.0f, 0.0f, 0.5f, 30.0f}) : 0.0f; }
  uint8_t norm() {
    return static_cast<uint8_t>(request_.has_variants && one_in(3) ? format::Norm::kLayerNorm
                                                                   : format::Norm::kRms);
  }
  // Some of these flags that are requested.
  uint32_t some_of(uint32_t flags) {
    return flags & request_.flags & static_cast<uint32_t>(random_());
  }

  void set_scalars() {
    format::ModelScalars& m = c_.model;
    m.architecture = between(1, static_cast<uint32_t>(std::size(kArchitectureNames)));
    m.flags = request_.model_flags & static_cast<uint32_t>(random_());
    constexpr uint32_t kPoolings = 4;
    m.pooling = m.architecture % kPoolings;
    if (m.pooling == 0) m.flags &= ~format::kUnitEmbeddings;
    m.d_model = of({1u, 3u, 6u, 17u, 32u, 40u, 65u});
    m.vocab_size = between(1, 60);
    m.max_context = between(2, 200);
    m.planned_context = between(1, m.max_context);
    m.final_norm = norm();
    m.norm_epsilon = epsilon();
    m.embedding_multiplier = of({1.0f, 8.0f, -2.0f});
    m.residual_multiplier = of({1.0f, 0.5f});
    m.logits_divisor = of({1.0f, 8.0f});
    m.logits_cap = cap();
    m.bos_token = one_in(3) ? format::kNone : m.vocab_size - 1;
    m.n_end_tokens = between(0, format::kMaxEndTokens);
    for (uint32_t i = 0; i < m.n_end_tokens; ++i) m.end_tokens[i] = between(0, m.vocab_size - 1);
    m.n_rope_tables = between(0, format::kMaxRopeTables);
    for (uint32_t i = 0; i < m.n_rope_tables; ++i) {
      const uint32_t original = one_in(3) ? between(1, m.max_context - 1) : 0;
      m.rope_tables[i] = {between(1, 12), of({1.0f, 1.25f}), original, 0};
    }
    if (!request_.has_per_layer || one_in(2)) return;
    m.per_layer_width = between(1, 20);
    m.per_layer_table_multiplier = of({1.0f, 4.0f});
    m.per_layer_input_multiplier = of({1.0f, 0.25f});
    m.per_layer_sum_multiplier = of({1.0f, 0.75f});
  }

  // One that turns no more elements than there are, or none.
  uint8_t rope_table(uint32_t n_elements) {
    std::vector<uint8_t> found = {format::kNoTable};
    for (uint32_t i = 0; i < c_.model.n_rope_tables; ++i) {
      if (2 * c_.model.rope_tables[i].n_pairs <= n_elements)
        found.push_back(static_cast<uint8_t>(i));
    }
    return of(found);
  }

  void set_scores(LayerKind* k) {
    k->window = of({0u, 0u, 1u, 5u, 64u, 100u});
    k->score_multiplier = of({0.5f, 0.1f, -0.25f});
    k->score_cap = cap();
    if (!request_.has_variants || one_in(2)) return;
    k->query_growth = 0.1f;
    k->query_growth_period = between(1, 20);
  }

  void set_attention(LayerKind* k) {
    k->n_key_heads = k->n_value_heads = static_cast<uint16_t>(between(1, 3));
    k->n_query_heads = static_cast<uint16_t>(k->n_key_heads * between(1, 4));
    k->key_dim = one_in(4) ? even(140) : even(12);
    k->value_dim = request_.has_variants && one_in(2) ? even(12) : k->key_dim;
    set_scores(k);
    k->qkv_clip = cap();
    k->flags |= some_of(attention::kFlags);
    if ((k->flags & flag::kHeadNorms) != 0) k->flags &= ~flag::kWholeNorms;
    share(k);
    k->rope_table = rope_table(k->key_dim);
    if (k->shared_with != format::kNoKind) k->flags &= ~(flag::kValueNorm | flag::kValuesAreKeys);
    if (k->key_dim != k->value_dim) k->flags &= ~flag::kValuesAreKeys;
  }

  // With the keys and values of an earlier kind, or not.
  void share(LayerKind* k) {
    std::vector<uint8_t> owners;
    for (size_t i = 0; i < c_.kinds.size(); ++i) {
      const bool is_attention = c_.kinds[i].mixer == k->mixer;
      if (is_attention && attention::has_own_rows(c_.kinds[i])) {
        owners.push_back(static_cast<uint8_t>(i));
      }
    }
    if (!request_.has_variants || owners.empty() || one_in(2)) return;
    k->shared_with = of(owners);
    const LayerKind& owner = c_.kinds[k->shared_with];
    k->n_key_heads = owner.n_key_heads;
    k->n_value_heads = owner.n_value_heads;
    k->n_query_heads = static_cast<uint16_t>(k->n_key_heads * between(1, 4));
    k->key_dim = owner.key_dim;
    k->value_dim = owner.value_dim;
    k->window = owner.window;
  }

  void set_latent(LayerKind* k) {
    k->n_query_heads = static_cast<uint16_t>(between(1, 5));
    k->n_key_heads = k->n_value_heads = 1;
    k->key_dim = static_cast<uint16_t>(even(12) + 2);
    k->value_dim = even(12);
    k->query_rank = static_cast<uint16_t>(one_in(2) ? 0 : between(1, 20));
    k->latent_rank = static_cast<uint16_t>(between(2, 40));
    k->shared_key_dim = static_cast<uint16_t>(2 * between(0, k->key_dim / 2 - 1));
    k->rope_table = rope_table(k->shared_key_dim);
    k->flags |= some_of(latent::kFlags);
    set_scores(k);
  }

  void set_recurrence(LayerKind* k) {
    k->n_query_heads = k->n_key_heads = static_cast<uint16_t>(between(1, 3));
    k->n_value_heads = static_cast<uint16_t>(k->n_key_heads * between(1, 3));
    k->key_dim = even(12);
    k->value_dim = even(12);
    k->conv_taps = static_cast<uint8_t>(between(format::kMinTaps, format::kMaxTaps));
    if (k->mixer == static_cast<uint8_t>(Mixer::kDeltaRule)) k->unit_epsilon = 1e-6f;
    k->flags |= some_of(kMixerFormats[k->mixer].flags);
  }

  void set_mixer(LayerKind* k) {
    k->flags |= request_.always & kMixerFormats[k->mixer].flags;
    if (k->mixer != 0) k->flags |= block_norms(flag::kMixerNorm, flag::kMixerOutNorm);
    switch (static_cast<Mixer>(k->mixer)) {
      case Mixer::kNothing:
        return;
      case Mixer::kAttention:
        return set_attention(k);
      case Mixer::kLatentAttention:
        return set_latent(k);
      case Mixer::kDeltaRule:
      case Mixer::kStateSpace:
        return set_recurrence(k);
      case Mixer::kShortConvolution:
        k->conv_taps = static_cast<uint8_t>(between(format::kMinTaps, format::kMaxTaps));
        k->flags |= some_of(short_convolution::kFlags);
    }
  }

  uint32_t block_norms(uint32_t before, uint32_t behind) {
    return (request_.always & (before | behind)) | some_of(before | behind);
  }

  void set_activation(LayerKind* k) {
    constexpr uint32_t kAll = format::kActivations;
    k->activation = static_cast<uint8_t>(request_.has_variants ? between(1, kAll) : 1);
    if (k->activation != static_cast<uint8_t>(format::Activation::kClampedSwiglu)) return;
    k->activation_alpha = 1.702f;
    k->activation_limit = 7.0f;
    k->flags |= flag::kGated;
  }

  void set_experts(LayerKind* k) {
    k->d_ff = one_in(2) ? 0 : between(1, 40);
    k->expert_ff = of({1u, 3u, 16u, 18u, 33u});
    const uint32_t n = of({1u, 2u, 3u, 4u, 6u, 8u, 9u, 12u});
    k->n_experts = static_cast<uint16_t>(n);
    k->n_chosen = static_cast<uint16_t>(between(1, std::min(n, 4u)));
    k->router_score = static_cast<uint8_t>(between(1, 2));
    k->router_epsilon = of({0.0f, 1e-20f});
    k->router_scale = of({1.0f, 2.5f});
    if (k->d_ff == 0) k->flags &= ~(flag::kSharedGate | flag::kBranchNorms);
    if (one_in(2)) return;
    std::vector<uint32_t> divisors;
    for (uint32_t groups = 1; groups <= n; ++groups) {
      if (n % groups == 0) divisors.push_back(groups);
    }
    const uint32_t groups = of(divisors);
    const uint32_t in_group = n / groups;
    k->n_groups = static_cast<uint16_t>(groups);
    k->n_groups_chosen =
        static_cast<uint16_t>(between((k->n_chosen + in_group - 1) / in_group, groups));
    k->group_rank = static_cast<uint8_t>(between(1, std::min(in_group, 2u)));
  }

  void set_feed_forward(LayerKind* k) {
    if (k->feed_forward == 0) return;
    const uint32_t flags = kFeedForwardFormats[k->feed_forward].flags;
    k->flags |=
        (request_.always & flags) | some_of(flags) | block_norms(flag::kFfnNorm, flag::kFfnOutNorm);
    set_activation(k);
    if (k->feed_forward == static_cast<uint8_t>(format::FeedForward::kDense)) {
      k->d_ff = between(1, 70);
    } else {
      set_experts(k);
    }
    const bool is_clamped =
        k->activation == static_cast<uint8_t>(format::Activation::kClampedSwiglu);
    if (c_.model.per_layer_width != 0 && !is_clamped) k->flags |= some_of(flag::kPerLayerInput);
  }

  LayerKind kind() {
    LayerKind k = blank_kind();
    k.norm = norm();
    k.norm_epsilon = epsilon();
    k.inner_epsilon = epsilon();
    do {
      k.mixer = static_cast<uint8_t>(of(request_.mixers));
      k.feed_forward = static_cast<uint8_t>(of(request_.feed_forwards));
    } while (k.mixer == 0 && k.feed_forward == 0);
    k.flags = some_of(flag::kLayerScale);
    set_mixer(&k);
    set_feed_forward(&k);
    return k;
  }

  // Each kind, in the order of their numbers, and any that was there once more.
  void set_layers() {
    uint32_t n_seen = 0;
    while (n_seen < c_.kinds.size() || (c_.layers.size() < kMostLayers && !one_in(3))) {
      const bool again = n_seen == c_.kinds.size() || (n_seen > 0 && one_in(3));
      c_.layers.push_back(static_cast<uint8_t>(again ? between(0, n_seen - 1) : n_seen++));
    }
  }

  void set_random_formats() {
    const MatrixFormat main = kMatrixFormats[between(0, std::size(kMatrixFormats) - 1)];
    const bool is_mixed = one_in(2);
    bool has_scales = false;
    bool has_staying = false;
    c_.count_formats([&](const TensorSpec& spec) {
      const MatrixFormat f =
          is_mixed ? kMatrixFormats[between(0, std::size(kMatrixFormats) - 1)] : main;
      has_scales = has_scales || may_be_signed(f.number_format);
      has_staying = has_staying || stays_in_file(spec.role);
      return f;
    });
    if (!has_scales) c_.model.flags &= ~format::kSignedScales;
    c_.model.compression = between(0, has_staying ? 2 : 1);
  }

  std::mt19937 random_;
  const RandomKinds& request_;
  ConfigParts c_;
};

}  // namespace

RandomKinds all_kinds() {
  using format::FeedForward;
  return {{Mixer::kNothing, Mixer::kAttention, Mixer::kAttention, Mixer::kLatentAttention,
           Mixer::kShortConvolution, Mixer::kDeltaRule, Mixer::kStateSpace},
          {FeedForward::kNothing, FeedForward::kDense, FeedForward::kExperts},
          0,
          UINT32_MAX,
          format::kKnownModelFlags,
          true,
          true};
}

RandomKinds plain_kinds() {
  return {{Mixer::kAttention},
          {format::FeedForward::kDense},
          flag::kMixerNorm | flag::kFfnNorm | flag::kGated,
          flag::kMixerBias | flag::kOutputBias | flag::kFfnBias | flag::kHeadNorms,
          format::kTiedEmbedding | format::kSignedScales,
          false,
          false};
}

ConfigParts random_kinds(uint32_t seed, const RandomKinds& request) {
  return RandomConfig(seed, request).make();
}

}  // namespace cria::test
