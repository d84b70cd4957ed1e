#include "runtime/blocks/blocks.h"

#include "runtime/base/features.h"
#include "runtime/blocks/attention/attention.h"
#include "runtime/blocks/dense/dense.h"
#include "runtime/blocks/latent/latent.h"

namespace cria {
namespace {

struct MixerRow {
  format::Mixer number;
  Mixer mixer;
};
constexpr MixerRow kMixers[] = {
    {format::Mixer::kAttention, {attention::forward, attention::turn_back}},
#if CRIA_WITH_LATENT
    {format::Mixer::kLatentAttention, {latent::forward, latent::turn_back}},
#endif
};

struct FeedForwardRow {
  format::FeedForward number;
  FeedForward feed_forward;
};
constexpr FeedForwardRow kFeedForwards[] = {
    {format::FeedForward::kDense, {dense::forward}},
};

// Of LayerKind::flags: what every build computes.
constexpr uint32_t kPlainFlags = format::flag::kMixerNorm | format::flag::kFfnNorm |
                                 format::flag::kMixerBias | format::flag::kOutputBias |
                                 format::flag::kFfnBias | format::flag::kHeadNorms |
                                 format::flag::kGated;
// What no build computes yet.
constexpr uint32_t kLaterFlags = format::flag::kPerLayerInput;

bool is_plain(const format::LayerKind& k) {
  const bool is_silu =
      k.feed_forward == 0 || (k.activation == static_cast<uint8_t>(format::Activation::kSilu) &&
                              has_flag(k, format::flag::kGated));
  const bool is_latent = k.mixer == static_cast<uint8_t>(format::Mixer::kLatentAttention);
  return is_silu && k.norm == static_cast<uint8_t>(format::Norm::kRms) && k.score_cap == 0 &&
         k.qkv_clip == 0 && k.query_growth == 0 && (is_latent || k.key_dim == k.value_dim) &&
         k.shared_with == format::kNoKind && (k.flags & ~kPlainFlags) == 0;
}

bool can_compute(const format::LayerKind& k) {
  if (k.mixer != 0 && find_mixer(k.mixer) == nullptr) return false;
  if (k.feed_forward != 0 && find_feed_forward(k.feed_forward) == nullptr) return false;
  return kHasVariants ? (k.flags & kLaterFlags) == 0 : is_plain(k);
}

}  // namespace

const Mixer* find_mixer(uint8_t mixer) {
  for (const MixerRow& row : kMixers) {
    if (static_cast<uint8_t>(row.number) == mixer) return &row.mixer;
  }
  return nullptr;
}

const FeedForward* find_feed_forward(uint8_t feed_forward) {
  for (const FeedForwardRow& row : kFeedForwards) {
    if (static_cast<uint8_t>(row.number) == feed_forward) return &row.feed_forward;
  }
  return nullptr;
}

bool can_compute(const Config& c) {
  const format::ModelScalars& m = *c.model;
  const bool is_plain_model = m.final_norm == static_cast<uint32_t>(format::Norm::kRms) &&
                              m.logits_cap == 0 && !has_flag(c, format::kLearnedPositions);
  if (m.per_layer_width != 0 || (!kHasVariants && !is_plain_model)) return false;
  for (const format::LayerKind& kind : c.kinds) {
    if (!can_compute(kind)) return false;
  }
  return true;
}

}  // namespace cria
