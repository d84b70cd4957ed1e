#include "converter/recurrent_layers.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "converter/config_numbers.h"

namespace cria::converter {
namespace {

using format::LayerKind;
using format::Mixer;

constexpr float kUnitEpsilon = 1e-6F;

// Which layers are no attention: as layer_types says, or all but each
// full_attention_interval-th.
std::vector<bool> recurrent_layers(const JsonObject& config, const ArchitectureRow& row,
                                   size_t n_layers) {
  std::vector<bool> are(n_layers, false);
  const char* key = config.has("layer_types") ? "layer_types" : "layers_block_type";
  if (const auto types = config.texts(key)) {
    for (size_t i = 0; i < n_layers; ++i) are[i] = (*types)[i] == row.other_layer;
    return are;
  }
  constexpr const char* kInterval = "full_attention_interval";
  constexpr uint32_t kUsualInterval = 4;
  const uint32_t interval = config.count(kInterval).value_or(kUsualInterval);
  if (interval == 0) config.refuse(kInterval, "must be above zero");
  for (size_t i = 0; i < n_layers; ++i) are[i] = (i + 1) % interval != 0;
  return are;
}

// A layer of no mixer yet, that feeds forward as another does.
LayerKind without_attention(const LayerKind& layer) {
  LayerKind kind = {};
  kind.rope_table = format::kNoTable;
  kind.shared_with = format::kNoKind;
  kind.norm = layer.norm;
  kind.norm_epsilon = layer.norm_epsilon;
  kind.inner_epsilon = layer.norm_epsilon;
  kind.feed_forward = layer.feed_forward;
  kind.activation = layer.activation;
  kind.d_ff = layer.d_ff;
  kind.flags = layer.flags & (kLlamaFlags | format::flag::kFfnBias);
  return kind;
}

struct SizeKeys {
  const char* n_keys;
  const char* n_values;
  const char* key_dim;
  const char* value_dim;
  const char* taps;
};

uint16_t read_width(const JsonObject& config, const char* key, uint32_t width) {
  if (width >= 2 && width <= format::kMaxHeadDim && width % 2 == 0)
    return static_cast<uint16_t>(width);
  config.refuse(key, "must be even and from 2 to " + std::to_string(format::kMaxHeadDim));
}

// Sizes that have to go with each other.
void check_sizes(const JsonObject& config, const SizeKeys& keys, const LayerKind& k) {
  if (k.n_value_heads % k.n_key_heads != 0) {
    config.refuse(keys.n_keys, "must divide " + config.name_of(keys.n_values));
  }
  const auto check = [&](const char* heads, uint32_t n, uint32_t width) {
    if (n * width <= format::kMaxModelWidth) return;
    config.refuse(heads, "times the elements of a head must be at most " +
                             std::to_string(format::kMaxModelWidth));
  };
  check(keys.n_keys, k.n_key_heads, k.key_dim);
  check(keys.n_values, k.n_value_heads, k.value_dim);
}

uint8_t read_taps(const JsonObject& config, const char* key) {
  constexpr uint32_t kUsualTaps = 4;
  const uint32_t n_taps = config.count(key).value_or(kUsualTaps);
  check_within(config, key, n_taps, format::kMinTaps, format::kMaxTaps);
  return static_cast<uint8_t>(n_taps);
}

LayerKind with_delta_rule(const JsonObject& config, const LayerKind& layer) {
  constexpr SizeKeys kKeys = {"linear_num_key_heads", "linear_num_value_heads",
                              "linear_key_head_dim", "linear_value_head_dim",
                              "linear_conv_kernel_dim"};
  constexpr uint32_t kUsualKeyHeads = 16;
  constexpr uint32_t kUsualValueHeads = 32;
  constexpr uint32_t kUsualWidth = 128;
  LayerKind kind = without_attention(layer);
  kind.mixer = static_cast<uint8_t>(Mixer::kDeltaRule);
  kind.unit_epsilon = kUnitEpsilon;
  const auto count = [&](const char* key, uint32_t usual) {
    return static_cast<uint16_t>(count_or(config, key, usual, format::kMaxHeads));
  };
  kind.n_query_heads = kind.n_key_heads = count(kKeys.n_keys, kUsualKeyHeads);
  kind.n_value_heads = count(kKeys.n_values, kUsualValueHeads);
  kind.key_dim =
      read_width(config, kKeys.key_dim, config.count(kKeys.key_dim).value_or(kUsualWidth));
  kind.value_dim =
      read_width(config, kKeys.value_dim, config.count(kKeys.value_dim).value_or(kUsualWidth));
  kind.conv_taps = read_taps(config, kKeys.taps);
  check_sizes(config, kKeys, kind);
  return kind;
}

// As Python's json and transformers write it.
bool is_infinite(const Json& value) {
  constexpr const char* kFloat = "__float__";
  if (value.is_number()) return std::isinf(value.get<double>());
  return value.is_object() && value.contains(kFloat) && value[kFloat] == "Infinity";
}

// Steps of time are as they are computed: from 0 on without a limit.
void check_time_steps(const JsonObject& config) {
  constexpr const char* kKey = "time_step_limit";
  const Json* const range = config.find(kKey);
  if (range == nullptr) return;
  const bool is_all =
      range->is_array() && range->size() == 2 && (*range)[0] == 0 && is_infinite((*range)[1]);
  if (!is_all) config.refuse(kKey, "is another than from 0 to infinity, which is not supported");
}

// Elements of a head: as the key says, or what is left of all.
uint32_t read_mamba_width(const JsonObject& config, const SizeKeys& keys, uint32_t d_model,
                          uint32_t n_heads) {
  constexpr const char* kExpand = "mamba_expand";
  constexpr uint32_t kUsualExpand = 2;
  const uint64_t all =
      uint64_t{count_or(config, kExpand, kUsualExpand, format::kMaxModelWidth)} * d_model;
  const Json* const width = config.find(keys.value_dim);
  const bool is_said = width != nullptr && *width != "auto";
  const uint64_t of_head = is_said ? config.required_count(keys.value_dim) : all / n_heads;
  if (of_head * n_heads != all || of_head > format::kMaxHeadDim) {
    config.refuse(is_said ? keys.value_dim : keys.n_values,
                  "does not give heads of up to " + std::to_string(format::kMaxHeadDim) +
                      " elements that are " + config.name_of(kExpand) + " times " +
                      config.name_of("hidden_size") + " together");
  }
  return static_cast<uint32_t>(of_head);
}

LayerKind with_state_space(const JsonObject& config, uint32_t d_model, const LayerKind& layer) {
  constexpr SizeKeys kKeys = {"mamba_n_groups", "mamba_n_heads", "mamba_d_state", "mamba_d_head",
                              "mamba_d_conv"};
  constexpr uint32_t kUsualHeads = 128;
  constexpr uint32_t kUsualStates = 256;
  if (layer.activation != static_cast<uint8_t>(format::Activation::kSilu)) {
    config.refuse("hidden_act", "must be silu where layers are mamba");
  }
  check_time_steps(config);
  const uint32_t n_groups = count_or(config, kKeys.n_keys, 1, format::kMaxHeads);
  if (n_groups != 1) {
    config.refuse(kKeys.n_keys,
                  "other than 1 is not supported: programs disagree on what is normalized then");
  }
  LayerKind kind = without_attention(layer);
  kind.mixer = static_cast<uint8_t>(Mixer::kStateSpace);
  kind.n_query_heads = kind.n_key_heads = static_cast<uint16_t>(n_groups);
  kind.n_value_heads =
      static_cast<uint16_t>(count_or(config, kKeys.n_values, kUsualHeads, format::kMaxHeads));
  kind.key_dim =
      read_width(config, kKeys.key_dim, config.count(kKeys.key_dim).value_or(kUsualStates));
  kind.value_dim = read_width(config, kKeys.value_dim,
                              read_mamba_width(config, kKeys, d_model, kind.n_value_heads));
  kind.conv_taps = read_taps(config, kKeys.taps);
  if (config.boolean("mamba_conv_bias").value_or(true)) {
    kind.flags |= format::flag::kConvolutionBias;
  }
  if (config.boolean("mamba_proj_bias").value_or(false)) {
    kind.flags |= format::flag::kMixerBias | format::flag::kOutputBias;
  }
  check_sizes(config, kKeys, kind);
  return kind;
}

}  // namespace

void read_recurrences(const JsonObject& config, const ArchitectureRow& row, uint32_t d_model,
                      std::vector<LayerKind>* layers) {
  if (row.other_layer.empty() || row.other_mixer == Mixer::kShortConvolution) return;
  const std::vector<bool> are = recurrent_layers(config, row, layers->size());
  for (size_t i = 0; i < layers->size(); ++i) {
    if (!are[i]) continue;
    LayerKind& layer = (*layers)[i];
    layer = row.other_mixer == Mixer::kDeltaRule ? with_delta_rule(config, layer)
                                                 : with_state_space(config, d_model, layer);
  }
}

}  // namespace cria::converter
