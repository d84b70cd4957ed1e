#include "converter/layer_kinds.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "converter/error.h"

namespace cria::converter {
namespace {

using format::LayerKind;

void check_count(const JsonObject& config, const char* key, size_t n, size_t n_layers) {
  if (n == n_layers) return;
  config.refuse(key, "names " + std::to_string(n) + " layers where " +
                         config.name_of("num_hidden_layers") + " says " + std::to_string(n_layers));
}

constexpr const char* kNoRopeLayers = "no_rope_layers";

// RoPE ------------------------------------------------------------------------------------------

// Nonzero for each layer with RoPE, as no_rope_layers or no_rope_layer_interval says.
std::vector<uint32_t> listed_rope(const JsonObject& config, uint32_t n_layers) {
  if (const auto layers = config.counts(kNoRopeLayers)) {
    check_count(config, kNoRopeLayers, layers->size(), n_layers);
    return *layers;
  }
  constexpr const char* kInterval = "no_rope_layer_interval";
  constexpr uint32_t kDefaultInterval = 4;
  const uint32_t interval = config.count(kInterval).value_or(kDefaultInterval);
  if (interval == 0) config.refuse(kInterval, "must be above zero");
  std::vector<uint32_t> layers(n_layers);
  for (uint32_t i = 0; i < n_layers; ++i) layers[i] = (i + 1) % interval != 0 ? 1 : 0;
  return layers;
}

bool has_positions(const JsonObject& config, const ArchitectureRow& row) {
  constexpr const char* kKey = "position_embedding_type";
  const std::string type = config.text(kKey).value_or(row.is_hybrid ? "nope" : "rope");
  if (type != "rope" && type != "nope") {
    config.refuse(kKey, "'" + shown(type) + "' is not supported, only rope and nope");
  }
  return type == "rope";
}

std::vector<uint32_t> read_rope_layers(const JsonObject& config, const ArchitectureRow& row,
                                       uint32_t n_layers) {
  switch (row.no_rope) {
    case NoRopeKeys::kLayers:
      return listed_rope(config, n_layers);
    case NoRopeKeys::kPositionType:
      return std::vector<uint32_t>(n_layers, has_positions(config, row) ? 1 : 0);
    case NoRopeKeys::kAll:
      return std::vector<uint32_t>(n_layers, 0);
    case NoRopeKeys::kFull:  // which are those, the windows say
    case NoRopeKeys::kNone:
      break;
  }
  return std::vector<uint32_t>(n_layers, 1);
}

// Windows ---------------------------------------------------------------------------------------

using Windows = std::vector<bool>;  // whether a layer has one

size_t count(const Windows& windows) {
  return static_cast<size_t>(std::count(windows.begin(), windows.end(), true));
}

// What layer_types says; nothing: it is silent.
std::optional<Windows> named_windows(const JsonObject& config, const ArchitectureRow& row,
                                     size_t n_layers) {
  const char* key = config.has("layer_types") ? "layer_types" : "layers_block_type";
  const std::optional<std::vector<std::string>> types = config.texts(key);
  if (!types && row.is_hybrid) config.refuse("layer_types", "is missing");
  if (!types) return std::nullopt;
  check_count(config, "layer_types", types->size(), n_layers);
  Windows windows;
  for (const std::string& type : *types) {
    const bool is_other = (row.has_convolutions && type == kConvolutionLayer) ||
                          (!row.other_layer.empty() && type == row.other_layer);
    if (!is_other && type != "full_attention" && type != "attention" &&
        type != "sliding_attention") {
      const std::string other =
          row.has_convolutions ? kConvolutionLayer : std::string(row.other_layer);
      config.refuse("layer_types", "has '" + shown(type) +
                                       "', which is not supported: every layer must be attention" +
                                       (other.empty() ? "; " : " or " + other + "; ") +
                                       supported_architectures());
    }
    windows.push_back(type == "sliding_attention");
  }
  return windows;
}

// Of each so many layers the last has no window: as a number, or as "LLLG" (local, global).
uint32_t read_period(const JsonObject& config, const ArchitectureRow& row) {
  constexpr const char* kPattern = "sliding_window_pattern";
  const Json* const said = config.find(kPattern);
  if (said != nullptr && said->is_string()) {
    const std::string letters = *config.text(kPattern);
    const size_t last = letters.find_first_not_of('L');
    if (last == std::string::npos || letters.substr(last) != "G" || last >= format::kMaxLayers) {
      config.refuse(kPattern, "must be a number, or letters L and at their end one G");
    }
    return static_cast<uint32_t>(letters.size());
  }
  const uint32_t period = config.count(kPattern).value_or(row.window_period);
  if (period == 0) config.refuse(kPattern, "must be above zero");
  return period;
}

// Where layer_types does not say.
Windows default_windows(const JsonObject& config, const ArchitectureRow& row,
                        const std::vector<LayerKind>& layers) {
  constexpr uint32_t kFirstWithWindow = 28;
  const bool has_first = row.window == WindowKeys::kSwitch || row.window == WindowKeys::kSwitchEven;
  const uint32_t first =
      has_first ? config.count("max_window_layers").value_or(kFirstWithWindow) : 0;
  const uint32_t period = row.window == WindowKeys::kPeriod ? read_period(config, row) : 0;
  const auto has_one = [&](size_t i) {
    switch (row.window) {
      case WindowKeys::kNone:
        return false;
      case WindowKeys::kWindow:
      case WindowKeys::kSwitchAll:
        return true;
      case WindowKeys::kSwitch:
        return i >= first;
      case WindowKeys::kSwitchEven:
        return i % 2 == 0 && i < first;
      case WindowKeys::kNoRopeOnly:
        return layers[i].rope_table == format::kNoTable;
      case WindowKeys::kEven:
        return i % 2 == 0;
      case WindowKeys::kPeriod:
        return (i + 1) % period != 0;
    }
    return false;
  };
  Windows windows;
  for (size_t i = 0; i < layers.size(); ++i) windows.push_back(has_one(i));
  return windows;
}

// Whether sliding_window counts.
bool has_window(const JsonObject& config, const ArchitectureRow& row) {
  switch (row.window) {
    case WindowKeys::kNone:
      return false;
    case WindowKeys::kWindow:
    case WindowKeys::kEven:
    case WindowKeys::kPeriod:
      return true;
    default:
      return config.boolean("use_sliding_window").value_or(false);
  }
}

// Positions that a layer with a window attends to; 0: no layer has one.
uint32_t read_window(const JsonObject& config, const ArchitectureRow& row) {
  const bool is_on = has_window(config, row);
  const uint32_t otherwise = config.contains("sliding_window") ? 0 : row.sliding_window;
  const uint32_t window = is_on ? config.count("sliding_window").value_or(otherwise) : 0;
  if (window > format::kMaxContext) {
    config.refuse("sliding_window", "must be from 0 to " + std::to_string(format::kMaxContext));
  }
  return window;
}

// What layer_types names goes with the keys.
void check_named(const JsonObject& config, const ArchitectureRow& row, const Windows& named,
                 uint32_t window) {
  const size_t n = count(named);
  const auto refuse = [&](const char* key, const std::string& problem) {
    config.refuse(key, problem + ": one of them has to change");
  };
  if (row.window == WindowKeys::kNone && n != 0) {
    config.refuse("layer_types", "has a sliding window, which this architecture does not support");
  }
  // Some attention of the library the checkpoint was made with looks at one key, some at another.
  if (window == 0 && n != 0) {
    refuse(has_window(config, row) ? "sliding_window" : "use_sliding_window",
           "gives no sliding window, and " + std::to_string(n) +
               " of layer_types are sliding_attention");
  }
  const bool is_of_all = row.window == WindowKeys::kWindow || row.window == WindowKeys::kSwitchAll;
  if (is_of_all && window != 0 && n != named.size()) {
    refuse("layer_types", n == 0 ? "names no sliding_attention where sliding_window gives all "
                                   "layers " +
                                       std::to_string(window) + " positions"
                                 : "names sliding_attention for " + std::to_string(n) + " of " +
                                       std::to_string(named.size()) +
                                       " layers where sliding_window is that of all");
  }
}

}  // namespace

std::vector<LayerKind> read_layers(const JsonObject& config, const ArchitectureRow& row,
                                   const LayerKind& like, uint32_t n_layers) {
  std::vector<LayerKind> layers(n_layers, like);
  const std::vector<uint32_t> with_rope = read_rope_layers(config, row, n_layers);
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].rope_table = with_rope[i] != 0 ? 0 : format::kNoTable;
  }
  const std::optional<Windows> named = named_windows(config, row, n_layers);
  const uint32_t window = read_window(config, row);
  if (named) check_named(config, row, *named, window);
  const Windows windows = named ? *named : default_windows(config, row, layers);
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerKind& layer = layers[i];
    layer.window = windows[i] ? window : 0;
    const bool has_one = layer.window != 0;
    if (row.no_rope == NoRopeKeys::kFull && window != 0 && !has_one) {
      layer.rope_table = format::kNoTable;
    }
    if (row.window_rope != WindowRope::kSame && has_one) layer.rope_table = kWindowTable;
  }
  return layers;
}

}  // namespace cria::converter
