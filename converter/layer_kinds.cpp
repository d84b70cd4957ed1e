#include "converter/layer_kinds.h"

#include <algorithm>

#include "converter/error.h"
#include "quant/model_layout.h"

namespace cria::converter {
namespace {

using format::ModelConfig;

// Layers of these kinds are what the runtime computes; how many of them have a sliding window.
uint32_t count_windows(const JsonObject& config, const std::vector<std::string>& kinds,
                       uint32_t n_layers) {
  if (kinds.size() != n_layers) {
    config.refuse("layer_types", "names " + std::to_string(kinds.size()) + " layers where " +
                                     config.name_of("num_hidden_layers") + " says " +
                                     std::to_string(n_layers));
  }
  uint32_t n = 0;
  for (const std::string& kind : kinds) {
    if (kind != "full_attention" && kind != "attention" && kind != "sliding_attention") {
      config.refuse("layer_types",
                    "has '" + shown(kind) +
                        "', which is not supported: every layer must be attention; " +
                        supported_architectures());
    }
    n += kind == "sliding_attention" ? 1 : 0;
  }
  return n;
}

// How many layers have a sliding window where layer_types does not say.
uint32_t default_windows(const JsonObject& config, const ArchitectureRow& row,
                         const ModelConfig& model) {
  if (row.window == WindowKeys::kWindow) return model.n_layers;
  if (row.window == WindowKeys::kSwitch) {
    constexpr uint32_t kFirstWithWindow = 28;
    const uint32_t first = config.count("max_window_layers").value_or(kFirstWithWindow);
    return model.n_layers - std::min(first, model.n_layers);
  }
  uint32_t n = 0;
  for (uint32_t layer = 0; layer < model.n_layers; ++layer) n += has_rope(model, layer) ? 0 : 1;
  return n;
}

// Nonzero for each layer with RoPE.
std::vector<uint32_t> read_rope_layers(const JsonObject& config, uint32_t n_layers) {
  if (const auto layers = config.counts(kNoRopeLayers)) {
    if (layers->size() == n_layers) return *layers;
    config.refuse(kNoRopeLayers, "names " + std::to_string(layers->size()) + " layers where " +
                                     config.name_of("num_hidden_layers") + " says " +
                                     std::to_string(n_layers));
  }
  constexpr const char* kInterval = "no_rope_layer_interval";
  constexpr uint32_t kDefaultInterval = 4;
  const uint32_t interval = config.count(kInterval).value_or(kDefaultInterval);
  if (interval == 0) config.refuse(kInterval, "must be above zero");
  std::vector<uint32_t> layers(n_layers);
  for (uint32_t i = 0; i < n_layers; ++i) layers[i] = (i + 1) % interval != 0 ? 1 : 0;
  return layers;
}

// The shortest pattern that the layers repeat.
void set_no_rope(const JsonObject& config, const std::vector<uint32_t>& has_rope,
                 ModelConfig* model) {
  if (std::all_of(has_rope.begin(), has_rope.end(), [](uint32_t has) { return has != 0; })) return;
  const auto repeats = [&](size_t period) {
    for (size_t i = period; i < has_rope.size(); ++i) {
      if ((has_rope[i] != 0) != (has_rope[i - period] != 0)) return false;
    }
    return true;
  };
  uint32_t period = 1;
  while (!repeats(period)) ++period;
  if (period > format::kMaxNoRopePeriod) {
    config.refuse(kNoRopeLayers, "repeats no pattern of up to " +
                                     std::to_string(format::kMaxNoRopePeriod) +
                                     " layers, which is not supported");
  }
  constexpr uint32_t kWordBits = 32;
  model->no_rope_period = period;
  for (uint32_t i = 0; i < std::min<size_t>(period, has_rope.size()); ++i) {
    if (has_rope[i] == 0) model->no_rope_layers[i / kWordBits] |= 1u << i % kWordBits;
  }
}

}  // namespace

void read_no_rope(const JsonObject& config, const ArchitectureRow& row, ModelConfig* model) {
  // check_config refuses more layers; no list that long is made before.
  if (row.no_rope == NoRopeKeys::kNone || model->n_layers > format::kMaxLayers) return;
  if (row.no_rope == NoRopeKeys::kLayers) {
    set_no_rope(config, read_rope_layers(config, model->n_layers), model);
    return;
  }
  constexpr const char* kKey = "position_embedding_type";
  const std::string type = config.text(kKey).value_or(row.is_hybrid ? "nope" : "rope");
  if (type != "rope" && type != "nope") {
    config.refuse(kKey, "'" + shown(type) + "' is not supported, only rope and nope");
  }
  if (type == "nope") set_no_rope(config, std::vector<uint32_t>(model->n_layers), model);
}

// The window of all layers; 0: none.
void read_window(const JsonObject& config, const ArchitectureRow& row, ModelConfig* model) {
  const char* types_key = config.has("layer_types") ? "layer_types" : "layers_block_type";
  const std::optional<std::vector<std::string>> kinds = config.texts(types_key);
  if (!kinds && row.is_hybrid) config.refuse("layer_types", "is missing");
  const uint32_t n_named = kinds ? count_windows(config, *kinds, model->n_layers) : 0;
  if (row.window == WindowKeys::kNone) {
    if (n_named != 0) {
      config.refuse("layer_types", "has a sliding window, which this architecture has not");
    }
    return;
  }
  const bool is_on =
      row.window == WindowKeys::kWindow || config.boolean("use_sliding_window").value_or(false);
  const uint32_t otherwise = config.contains("sliding_window") ? 0 : row.sliding_window;
  const uint32_t window = config.count("sliding_window").value_or(otherwise);
  if (!is_on || window == 0) {
    // Some attention of the library the checkpoint was made with looks at one key, some at another.
    if (n_named != 0) {
      config.refuse(is_on ? "sliding_window" : "use_sliding_window",
                    "gives no sliding window, and " + std::to_string(n_named) +
                        " of layer_types are sliding_attention: one of them has to change");
    }
    return;
  }
  if (row.window == WindowKeys::kWindow && kinds && n_named == 0) {
    config.refuse("layer_types",
                  "names no sliding_attention where sliding_window gives all layers " +
                      std::to_string(window) + " positions: one of them has to change");
  }
  const uint32_t n = kinds ? n_named : default_windows(config, row, *model);
  if (n != 0 && n != model->n_layers) {
    config.refuse(kinds ? "layer_types" : "use_sliding_window",
                  "gives " + std::to_string(n) + " of " + std::to_string(model->n_layers) +
                      " layers a sliding window, which is not supported: all have one or none");
  }
  model->sliding_window = n == 0 ? 0 : window;
}

}  // namespace cria::converter
