#include "runtime/blocks/blocks.h"

#include "runtime/blocks/attention/attention.h"
#include "runtime/blocks/delta_rule/delta_rule.h"
#include "runtime/blocks/dense/dense.h"
#include "runtime/blocks/experts/experts.h"
#include "runtime/blocks/latent/latent.h"
#include "runtime/blocks/short_convolution/short_convolution.h"
#include "runtime/blocks/state_space/state_space.h"

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
#if CRIA_WITH_RECURRENT
    {format::Mixer::kShortConvolution, {short_convolution::forward, nullptr}},
    {format::Mixer::kDeltaRule, {delta_rule::forward, nullptr}},
    {format::Mixer::kStateSpace, {state_space::forward, nullptr}},
#endif
};

struct FeedForwardRow {
  format::FeedForward number;
  FeedForward feed_forward;
};
constexpr FeedForwardRow kFeedForwards[] = {
    {format::FeedForward::kDense, {dense::forward}},
#if CRIA_WITH_EXPERTS
    {format::FeedForward::kExperts, {experts::forward}},
#endif
};

const FeedForward* find_feed_forward(uint8_t feed_forward) {
  for (const FeedForwardRow& row : kFeedForwards) {
    if (static_cast<uint8_t>(row.number) == feed_forward) return &row.feed_forward;
  }
  return nullptr;
}

}  // namespace

const Mixer* find_mixer(uint8_t mixer) {
  for (const MixerRow& row : kMixers) {
    if (static_cast<uint8_t>(row.number) == mixer) return &row.mixer;
  }
  return nullptr;
}

void find_blocks(const Weights& weights) {
  for (Layer& layer : weights.layers) {
    layer.mixer = find_mixer(layer.kind->mixer);
    layer.feed_forward = find_feed_forward(layer.kind->feed_forward);
  }
}

}  // namespace cria
