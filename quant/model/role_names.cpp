#include "quant/model/role_names.h"

#include <array>
#include <iterator>
#include <span>

#include "quant/blocks/block_formats.h"

namespace cria {
namespace {

using format::TensorRole;

struct RoleName {
  TensorRole role;
  const char* name;
};

constexpr RoleName kNames[] = {
    {TensorRole::kRope, "rope"},
    {TensorRole::kEmbedding, "embedding"},
    {TensorRole::kMixerNorm, "mixer_norm"},
    {TensorRole::kQ, "q"},
    {TensorRole::kK, "k"},
    {TensorRole::kV, "v"},
    {TensorRole::kO, "o"},
    {TensorRole::kFfnNorm, "ffn_norm"},
    {TensorRole::kGate, "gate"},
    {TensorRole::kUp, "up"},
    {TensorRole::kDown, "down"},
    {TensorRole::kFinalNorm, "final_norm"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kQBias, "q.bias"},
    {TensorRole::kKBias, "k.bias"},
    {TensorRole::kVBias, "v.bias"},
    {TensorRole::kOBias, "o.bias"},
    {TensorRole::kGateBias, "gate.bias"},
    {TensorRole::kUpBias, "up.bias"},
    {TensorRole::kDownBias, "down.bias"},
    {TensorRole::kQNorm, "q_norm"},
    {TensorRole::kKNorm, "k_norm"},
    {TensorRole::kPositions, "positions"},
    {TensorRole::kPerLayerTable, "per_layer_table"},
    {TensorRole::kPerLayerProjection, "per_layer_projection"},
    {TensorRole::kPerLayerNorm, "per_layer_norm"},
    {TensorRole::kMixerOutNorm, "mixer_out_norm"},
    {TensorRole::kFfnOutNorm, "ffn_out_norm"},
    {TensorRole::kVNorm, "v_norm"},
    {TensorRole::kMixerGate, "mixer_gate"},
    {TensorRole::kMixerGateBias, "mixer_gate.bias"},
    {TensorRole::kSinks, "sinks"},
    {TensorRole::kMixerInnerNorm, "mixer_inner_norm"},
    {TensorRole::kQDown, "q_down"},
    {TensorRole::kQDownBias, "q_down.bias"},
    {TensorRole::kQDownNorm, "q_down_norm"},
    {TensorRole::kLatentDown, "latent_down"},
    {TensorRole::kLatentDownBias, "latent_down.bias"},
    {TensorRole::kLatentNorm, "latent_norm"},
    {TensorRole::kKeyUp, "key_up"},
    {TensorRole::kValueUp, "value_up"},
    {TensorRole::kConvolution, "convolution"},
    {TensorRole::kConvolutionBias, "convolution.bias"},
    {TensorRole::kDecayIn, "decay_in"},
    {TensorRole::kDecayInBias, "decay_in.bias"},
    {TensorRole::kBetaIn, "beta_in"},
    {TensorRole::kBetaInBias, "beta_in.bias"},
    {TensorRole::kDecay, "decay"},
    {TensorRole::kDecayBias, "decay_bias"},
    {TensorRole::kSkip, "skip"},
    {TensorRole::kFfnInnerNorm, "ffn_inner_norm"},
    {TensorRole::kRouter, "router"},
    {TensorRole::kRouterBias, "router.bias"},
    {TensorRole::kChoiceBias, "choice_bias"},
    {TensorRole::kRouterNorm, "router_norm"},
    {TensorRole::kExpertScale, "expert_scale"},
    {TensorRole::kExpertNorm, "expert_norm"},
    {TensorRole::kExpertGate, "expert_gate"},
    {TensorRole::kExpertGateBias, "expert_gate.bias"},
    {TensorRole::kExpertUp, "expert_up"},
    {TensorRole::kExpertUpBias, "expert_up.bias"},
    {TensorRole::kExpertDown, "expert_down"},
    {TensorRole::kExpertDownBias, "expert_down.bias"},
    {TensorRole::kExpertOutNorm, "expert_out_norm"},
    {TensorRole::kSharedGate, "shared_gate"},
    {TensorRole::kSharedOutNorm, "shared_out_norm"},
    {TensorRole::kPerLayerGate, "per_layer_gate"},
    {TensorRole::kPerLayerOut, "per_layer_out"},
    {TensorRole::kPerLayerOutNorm, "per_layer_out_norm"},
    {TensorRole::kLayerScale, "layer_scale"},
};

constexpr std::array<const char*, format::kTensorRoles> kByRole = [] {
  std::array<const char*, format::kTensorRoles> names = {};
  for (const char*& name : names) name = "";
  for (const RoleName& row : kNames) names[static_cast<size_t>(row.role)] = row.name;
  return names;
}();

constexpr bool are_named(std::span<const TensorRow> rows) {
  for (const TensorRow& row : rows) {
    if (kByRole[static_cast<size_t>(row.role)][0] == 0) return false;
  }
  return true;
}
constexpr bool blocks_are_named(std::span<const BlockFormat> blocks) {
  for (const BlockFormat& block : blocks) {
    if (!are_named(block.rows)) return false;
  }
  return true;
}
static_assert(blocks_are_named(kMixerFormats) && blocks_are_named(kFeedForwardFormats) &&
              are_named(kRowsBeforeMixer) && are_named(kRowsBehindMixer) &&
              are_named(kRowsBehindFeedForward) && are_named(kRowsBeforeLayers) &&
              are_named(kRowsBehindLayers));

}  // namespace

const char* role_name(TensorRole role) {
  const auto place = static_cast<size_t>(role);
  return place < kByRole.size() ? kByRole[place] : "";
}

void tensor_name(const TensorSpec& spec, char* out, size_t capacity) {
  size_t n = 0;
  const auto put = [&](char c) {
    if (n + 1 < capacity) out[n++] = c;
  };
  if (spec.layer != format::kNone) {
    for (const char* p = "layers."; *p != 0; ++p) put(*p);
    char digits[10];
    size_t n_digits = 0;
    uint32_t rest = spec.layer;
    do {
      digits[n_digits++] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    while (n_digits != 0) put(digits[--n_digits]);
    put('.');
  }
  for (const char* p = role_name(spec.role); *p != 0; ++p) put(*p);
  if (capacity != 0) out[n] = 0;
}

}  // namespace cria
