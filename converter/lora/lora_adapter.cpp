#include "converter/lora/lora_adapter.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "converter/error.h"
#include "converter/float_rows.h"
#include "converter/json_input.h"
#include "converter/memory_size.h"
#include "converter/safetensors_tensor.h"
#include "converter/side_files.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kModelPrefix = "base_model.model.";
constexpr uint64_t kMaxRank = 1 << 14;  // no less than the widest matrices gain from

// The two factors of a module, as their tensors are called behind its name.
struct FactorNames {
  std::string_view right;  // [rank][n_cols] of a linear layer, [rank][n_rows] of an embedding
  std::string_view left;
  bool of_embedding;
};
constexpr FactorNames kFactors[] = {
    {".lora_A.weight", ".lora_B.weight", false},
    {".lora_A.default.weight", ".lora_B.default.weight", false},
    {".lora_embedding_A", ".lora_embedding_B", true},
    {".lora_embedding_A.default", ".lora_embedding_B.default", true},
};

// A pattern's key names a module by the end of its name.
std::optional<double> pattern_value(const std::map<std::string, double>& pattern,
                                    const std::string& module) {
  for (const auto& [key, value] : pattern) {
    if (module == key || module.ends_with("." + key)) return value;
  }
  return std::nullopt;
}

std::map<std::string, double> read_pattern(const JsonObject& config, const char* key) {
  std::map<std::string, double> pattern;
  const auto object = config.object(key);
  if (!object) return pattern;
  const std::string where = config.where() + ": " + key;
  for (const std::string& name : object->keys()) {
    if (name.find_first_of("^$*+?()[]{}|\\") != std::string::npos) {
      config.refuse(key, "has '" + shown(name) +
                             "', a pattern; only names of modules are read: merge the adapter "
                             "with peft (merge_and_unload) and convert that");
    }
    pattern[name] = object->required_number(name);
  }
  return pattern;
}

// Keys that change what is computed in a way that is no sum of matrices, or not one that is read.
void check_is_plain(const JsonObject& config) {
  const std::string type = config.text("peft_type").value_or("");
  if (type != "LORA") {
    config.refuse("peft_type", "is '" + shown(type) + "'; only LORA is read");
  }
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"}) {
    if (config.boolean(key).value_or(false)) {
      config.refuse(key,
                    "is true, which is not read; merge the adapter with peft "
                    "(merge_and_unload) and convert that");
    }
  }
  for (const char* key : {"layer_replication", "alora_invocation_tokens", "trainable_token_indices",
                          "target_parameters"}) {
    if (config.has(key)) config.refuse(key, "is not read; merge the adapter with peft first");
  }
}

// Each module is compared with each pattern; adapters of all layers have some hundred modules.
void check_steps(size_t n_modules, size_t n_patterns, const fs::path& where) {
  constexpr size_t kMost = size_t{1} << 22;
  if (n_patterns == 0 || n_modules <= kMost / n_patterns) return;
  refuse(where, "has " + std::to_string(n_modules) + " modules, and its config " +
                    std::to_string(n_patterns) +
                    " patterns of ranks and alphas: too many to compare; merge the adapter with "
                    "peft (merge_and_unload) and convert that");
}

}  // namespace

struct LoraAdapter::Settings {
  explicit Settings(const JsonObject& config)
      : rank(config.required_count("r")),
        alpha(config.required_number("lora_alpha")),
        is_rank_stable(config.boolean("use_rslora").value_or(false)),
        ranks(read_pattern(config, "rank_pattern")),
        alphas(read_pattern(config, "alpha_pattern")) {
    check_is_plain(config);
  }

  [[nodiscard]] double rank_of(const std::string& module) const {
    return pattern_value(ranks, module).value_or(rank);
  }
  [[nodiscard]] double scale_of(const std::string& module) const {
    const double own_rank = rank_of(module);
    const double own_alpha = pattern_value(alphas, module).value_or(alpha);
    return own_alpha / (is_rank_stable ? std::sqrt(own_rank) : own_rank);
  }

  uint32_t rank;
  double alpha;
  bool is_rank_stable;
  std::map<std::string, double> ranks;
  std::map<std::string, double> alphas;
};

LoraAdapter::LoraAdapter(const LoraWish& wish) : folder_(wish.folder) {
  if (!has_side_file(folder_, SideFile::kAdapterConfig)) {
    refuse(folder_, "has no adapter_config.json; give a folder that peft saved");
  }
  if (!entry_exists(folder_ / kWeightsFile)) {
    refuse(folder_, entry_exists(folder_ / "adapter_model.bin")
                        ? "has PyTorch weights only; save the adapter as safetensors first"
                        : "has no adapter_model.safetensors");
  }
  const Json json = read_side_json(folder_, SideFile::kAdapterConfig);
  const Settings settings(
      JsonObject(json, side_file_path(folder_, SideFile::kAdapterConfig).string()));
  file_ = std::make_unique<SafetensorsFile>(folder_ / kWeightsFile);
  read_tensors(settings, wish.scale);
}

void LoraAdapter::read_tensors(const Settings& settings, float scale) {
  const fs::path& where = file_->file().path();
  std::set<std::string> modules;
  for (const auto& [name, entry] : file_->tensors()) {
    bool is_factor = false;
    for (const FactorNames& factors : kFactors) {
      for (const std::string_view end : {factors.left, factors.right}) {
        if (!name.ends_with(end)) continue;
        modules.insert(name.substr(0, name.size() - end.size()));
        is_factor = true;
      }
    }
    if (is_factor) continue;
    if (!name.starts_with(kModelPrefix) || !name.ends_with(".weight")) {
      refuse(where, "tensor " + shown(name) +
                        " is no factor and replaces no matrix: not read; merge the adapter with "
                        "peft (merge_and_unload) and convert that");
    }
    std::string target = name.substr(kModelPrefix.size());
    for (const std::string_view part : {".modules_to_save.default", ".modules_to_save"}) {
      const size_t at = target.find(part);
      if (at != std::string::npos) target.erase(at, part.size());
    }
    auto tensor = std::make_unique<SafetensorsTensor>(target, file_->file(), entry);
    if (!replacements_.emplace(target, std::move(tensor)).second) {
      refuse(where, "replaces tensor " + shown(target) + " twice");
    }
  }
  check_steps(modules.size(), settings.ranks.size() + settings.alphas.size(), where);
  for (const std::string& module : modules) add_delta(settings, module, scale);
  if (deltas_.empty() && replacements_.empty()) refuse(where, "has no tensors");
}

void LoraAdapter::add_delta(const Settings& settings, const std::string& module,
                            float wished_scale) {
  const fs::path& where = file_->file().path();
  const std::string shown_module = "module " + shown(module);
  if (!module.starts_with(kModelPrefix)) {
    refuse(where, shown_module + " is not of " + std::string(kModelPrefix));
  }
  const auto& tensors = file_->tensors();
  const SafetensorsEntry* right = nullptr;
  const SafetensorsEntry* left = nullptr;
  bool of_embedding = false;
  for (const FactorNames& factors : kFactors) {
    const auto a = tensors.find(module + std::string(factors.right));
    const auto b = tensors.find(module + std::string(factors.left));
    if (a == tensors.end() && b == tensors.end()) continue;
    if (right != nullptr || left != nullptr) refuse(where, shown_module + " is there twice");
    if (a == tensors.end() || b == tensors.end()) {
      refuse(where, shown_module + " has one factor alone");
    }
    right = &a->second;
    left = &b->second;
    of_embedding = factors.of_embedding;
  }
  if (right->shape.size() != 2 || left->shape.size() != 2 || right->shape[0] != left->shape[1]) {
    refuse(where, shown_module + " has factors of shapes " + shape_text(right->shape) + " and " +
                      shape_text(left->shape) + ", which do not fit");
  }
  const uint64_t rank = right->shape[0];
  if (rank == 0 || rank > kMaxRank || static_cast<double>(rank) != settings.rank_of(module)) {
    refuse(where, shown_module + " has rank " + std::to_string(rank) +
                      ", which is not what adapter_config.json says");
  }
  const auto values_of = [&](const SafetensorsEntry& entry) {
    const SafetensorsTensor tensor(module, file_->file(), entry);
    if (!tensor.problem().empty()) refuse(where, shown_module + " " + tensor.problem());
    std::vector<uint8_t> scratch;
    std::vector<float> values(memory_size(tensor.n_rows() * tensor.n_cols()));
    if (!values.empty()) {
      tensor.read_rows(0, memory_size(tensor.n_rows()), &scratch, values.data());
    }
    if (!all_finite(values.data(), values.size())) {
      refuse(where, shown_module + " has values that are infinite or no numbers");
    }
    return values;
  };
  LoraDelta delta = {
      left->shape[0],    right->shape[1],
      memory_size(rank), static_cast<float>(settings.scale_of(module)) * wished_scale,
      values_of(*left),  values_of(*right)};
  if (!std::isfinite(delta.scale)) refuse(where, shown_module + " has a scale that is no number");
  if (of_embedding) {
    // Stored for a lookup: the factors of the transposed matrix.
    const auto transposed = [](const std::vector<float>& values, size_t rows, size_t cols) {
      std::vector<float> result(values.size());
      for (size_t r = 0; r < rows; ++r) {
        for (size_t c = 0; c < cols; ++c) result[c * rows + r] = values[r * cols + c];
      }
      return result;
    };
    const size_t n_rows = memory_size(right->shape[1]);
    const size_t n_cols = memory_size(left->shape[0]);
    std::vector<float> rows = transposed(delta.right, delta.rank, n_rows);
    delta.right = transposed(delta.left, n_cols, delta.rank);
    delta.left = std::move(rows);
    delta.n_rows = n_rows;
    delta.n_cols = n_cols;
  }
  deltas_.emplace(module.substr(kModelPrefix.size()) + ".weight", std::move(delta));
}

std::vector<fs::path> LoraAdapter::inputs() const {
  return {side_file_path(folder_, SideFile::kAdapterConfig), folder_ / kWeightsFile,
          folder_ / "adapter_model.bin"};
}

}  // namespace cria::converter
