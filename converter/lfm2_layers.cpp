#include "converter/lfm2_layers.h"

#include <algorithm>
#include <optional>
#include <string>

#include "converter/config_numbers.h"

namespace cria::converter {
namespace {

using format::LayerKind;

// Whether each layer is a convolution: as layer_types says, or full_attn_idxs, or none.
std::vector<bool> convolutions(const JsonObject& config, size_t n_layers) {
  constexpr const char* kAttention = "full_attn_idxs";
  std::vector<bool> are(n_layers, false);
  if (const auto types = config.texts("layer_types")) {
    for (size_t i = 0; i < n_layers; ++i) are[i] = (*types)[i] == kConvolutionLayer;
  } else if (const auto attention = config.counts(kAttention)) {
    are.assign(n_layers, true);
    for (const uint32_t i : *attention) {
      if (i >= n_layers) {
        config.refuse(kAttention, "has " + std::to_string(i) + ", and the layers are " +
                                      std::to_string(n_layers));
      }
      are[i] = false;
    }
  }
  return are;
}

// In place of a layer's attention.
LayerKind with_convolution(const JsonObject& config, const LayerKind& layer) {
  constexpr const char* kTaps = "conv_L_cache";
  constexpr uint32_t kUsualTaps = 3;
  const uint32_t n_taps = config.count(kTaps).value_or(kUsualTaps);
  check_within(config, kTaps, n_taps, format::kMinTaps, format::kMaxTaps);
  LayerKind kind = {};
  kind.mixer = static_cast<uint8_t>(format::Mixer::kShortConvolution);
  kind.conv_taps = static_cast<uint8_t>(n_taps);
  kind.rope_table = format::kNoTable;
  kind.shared_with = format::kNoKind;
  kind.norm = layer.norm;
  kind.norm_epsilon = layer.norm_epsilon;
  kind.feed_forward = layer.feed_forward;
  kind.activation = layer.activation;
  kind.d_ff = layer.d_ff;
  kind.flags = layer.flags & kLlamaFlags;
  if (config.boolean("conv_bias").value_or(false)) {
    kind.flags |=
        format::flag::kMixerBias | format::flag::kOutputBias | format::flag::kConvolutionBias;
  }
  return kind;
}

}  // namespace

void read_convolutions(const JsonObject& config, const ArchitectureRow& row,
                       std::vector<LayerKind>* layers) {
  if (!row.has_convolutions) return;
  const std::vector<bool> are = convolutions(config, layers->size());
  for (size_t i = 0; i < layers->size(); ++i) {
    if (are[i]) (*layers)[i] = with_convolution(config, (*layers)[i]);
  }
}

uint32_t read_lfm2_width(const JsonObject& config, const ArchitectureRow& row) {
  constexpr const char* kOldKey = "block_ff_dim";  // wins where both are there
  constexpr const char* kMultiplier = "block_ffn_dim_multiplier";
  constexpr const char* kMultiple = "block_multiple_of";
  constexpr uint32_t kUsualMultiple = 256;
  const char* const key = config.has(kOldKey) ? kOldKey : row.ffn_key;
  const uint32_t width = count_or(config, key, row.d_ff, format::kMaxFfnWidth);
  if (!config.boolean("block_auto_adjust_ff_dim").value_or(true)) return width;
  uint64_t adjusted = uint64_t{2} * width / 3;
  const double multiplier = config.number(kMultiplier).value_or(1);
  const double multiplied = multiplier * static_cast<double>(adjusted);
  if (!(multiplied >= 0 && multiplied <= format::kMaxFfnWidth)) {
    config.refuse(kMultiplier, "gives an MLP that is not from 1 to " +
                                   std::to_string(format::kMaxFfnWidth) + " wide");
  }
  adjusted = static_cast<uint64_t>(multiplied);
  const uint64_t multiple = count_or(config, kMultiple, kUsualMultiple, format::kMaxFfnWidth);
  adjusted = (adjusted + multiple - 1) / multiple * multiple;
  if (adjusted == 0 || adjusted > format::kMaxFfnWidth) {
    config.refuse(key, "gives an MLP that is " + std::to_string(adjusted) +
                           " wide; it must be from 1 to " + std::to_string(format::kMaxFfnWidth));
  }
  return static_cast<uint32_t>(adjusted);
}

}  // namespace cria::converter
