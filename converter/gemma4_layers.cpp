#include "converter/gemma4_layers.h"

#include <cmath>
#include <optional>
#include <string>

#include "converter/config_numbers.h"
#include "converter/config_parts.h"
#include "converter/error.h"
#include "converter/layer_kinds.h"

namespace cria::converter {
namespace {

namespace flag = format::flag;
using format::LayerKind;
using format::ModelScalars;

bool slides(const LayerKind& layer) { return layer.rope_table == kWindowTable; }

// Heads and values of layers without a window.
void read_full_heads(const JsonObject& config, std::vector<LayerKind>* layers) {
  constexpr const char* kWidth = "global_head_dim";
  constexpr const char* kHeads = "num_global_key_value_heads";
  constexpr uint32_t kUsualWidth = 512;
  const LayerKind like = layers->front();
  const uint32_t said = config.count(kWidth).value_or(config.contains(kWidth) ? 0 : kUsualWidth);
  const uint32_t width = said != 0 ? said : like.key_dim;
  check_within(config, kWidth, width, 2, format::kMaxHeadDim);
  if (width % 2 != 0) config.refuse(kWidth, "must be even");
  if (like.n_query_heads * width > format::kMaxModelWidth) {
    config.refuse(kWidth, "times " + config.name_of("num_attention_heads") + " must be at most " +
                              std::to_string(format::kMaxModelWidth));
  }
  const bool are_keys = config.boolean("attention_k_eq_v").value_or(false);
  const uint32_t n_heads =
      are_keys ? config.count(kHeads).value_or(like.n_key_heads) : like.n_key_heads;
  if (n_heads == 0 || like.n_query_heads % n_heads != 0) {
    config.refuse(kHeads, "must divide " + config.name_of("num_attention_heads"));
  }
  for (LayerKind& layer : *layers) {
    if (slides(layer)) continue;
    layer.key_dim = layer.value_dim = static_cast<uint16_t>(width);
    layer.n_key_heads = layer.n_value_heads = static_cast<uint16_t>(n_heads);
    if (are_keys) layer.flags |= flag::kValuesAreKeys;
  }
}

// The last layers read keys and values of the last one before them that slides as they do.
void share_keys(const JsonObject& config, std::vector<LayerKind>* layers) {
  constexpr const char* kKey = "num_kv_shared_layers";
  const size_t n = config.count(kKey).value_or(0);
  if (n >= layers->size()) {
    config.refuse(kKey, "must be below " + config.name_of("num_hidden_layers"));
  }
  const bool is_wide = config.boolean("use_double_wide_mlp").value_or(false);
  const size_t first = layers->size() - n;
  ConfigParts own;
  own.set_layers(std::span(*layers).first(first));
  for (size_t i = first; i < layers->size(); ++i) {
    LayerKind& layer = (*layers)[i];
    size_t owner = first;
    while (owner > 0 && slides((*layers)[owner - 1]) != slides(layer)) --owner;
    if (owner == 0) {
      config.refuse(
          kKey, std::string("leaves no earlier layer ") + (slides(layer) ? "with" : "without") +
                    " a window whose keys and values layer " + std::to_string(i) + " could read");
    }
    layer.shared_with = own.layers[owner - 1];
    layer.flags &= ~(flag::kValueNorm | flag::kValuesAreKeys);
    if (!is_wide) continue;
    layer.d_ff *= 2;
    check_within(config, "intermediate_size", layer.d_ff, 1, format::kMaxFfnWidth);
  }
}

void read_per_layer(const JsonObject& config, ModelScalars* model, std::vector<LayerKind>* layers) {
  constexpr const char* kWidth = "hidden_size_per_layer_input";
  constexpr const char* kRows = "vocab_size_per_layer_input";
  constexpr uint32_t kUsualWidth = 256;
  constexpr uint32_t kUsualRows = 262144;
  const uint32_t width = config.count(kWidth).value_or(config.contains(kWidth) ? 0 : kUsualWidth);
  if (width == 0) return;
  check_within(config, kWidth, width, 1, format::kMaxPerLayerWidth);
  if (config.count(kRows).value_or(kUsualRows) != model->vocab_size) {
    config.refuse(kRows, "other than " + config.name_of("vocab_size") + " is not supported");
  }
  const auto root = [](double value) { return static_cast<float>(std::sqrt(value)); };
  model->per_layer_width = width;
  model->per_layer_table_multiplier = root(width);
  model->per_layer_input_multiplier = root(1.0 / model->d_model);
  model->per_layer_sum_multiplier = root(0.5);
  for (LayerKind& layer : *layers) layer.flags |= flag::kPerLayerInput;
}

// Text attends as ever where only pictures attend to later tokens.
void check_direction(const JsonObject& config) {
  constexpr const char* kKey = "use_bidirectional_attention";
  const std::string who = config.has(kKey) ? *config.text(kKey) : "vision";
  if (who != "vision") {
    config.refuse(kKey, "'" + shown(who) + "' is not supported: tokens would attend to later ones");
  }
}

}  // namespace

void read_gemma4(const JsonObject& config, const ArchitectureRow& row, ModelScalars* model,
                 std::vector<LayerKind>* layers) {
  if (row.id != format::Architecture::kGemma4) return;
  constexpr const char* kWindow = "sliding_window";
  check_direction(config);
  if (config.contains(kWindow) && config.count(kWindow).value_or(0) == 0) {
    config.refuse(kWindow, "must be above zero");
  }
  // Whatever layer_types says.
  layers->back().window = 0;
  layers->back().rope_table = 0;
  for (LayerKind& layer : *layers) {
    if (layer.feed_forward != static_cast<uint8_t>(format::FeedForward::kExperts)) continue;
    layer.flags |= flag::kRouterNorm | flag::kExpertScale | flag::kBranchNorms;
  }
  read_full_heads(config, layers);
  share_keys(config, layers);
  read_per_layer(config, model, layers);
}

}  // namespace cria::converter
