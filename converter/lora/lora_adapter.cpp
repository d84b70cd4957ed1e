#include "converter/lora/lora_adapter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "converter/error.h"
#include "converter/float_rows.h"
#include "converter/lora/lora_settings.h"
#include "converter/memory_size.h"
#include "converter/safetensors_tensor.h"
#include "converter/side_files.h"
#include "converter/tensor_names.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kModelPrefix = "base_model.model.";
constexpr uint64_t kMaxRank = 1 << 14;  // no less than the widest matrices gain from

// The two factors of a module, as their tensors are called after its name.
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

// What peft puts in the names of what a module was before it was adapted, or is saved whole.
constexpr std::string_view kBaseLayer = ".base_layer";
constexpr std::string_view kSavedModule[] = {".modules_to_save.default", ".modules_to_save"};

// As the model calls it: "model.layers.0.self_attn.q_proj" of the adapter's name for it.
std::string name_in_model(const std::string& name) {
  return without_wrappers(name.substr(kModelPrefix.size()));
}

bool take_out(std::string_view part, std::string* name) {
  const size_t at = name->find(std::string(part) + ".");
  if (at != std::string::npos) name->erase(at, part.size());
  return at != std::string::npos;
}

}  // namespace

LoraAdapter::LoraAdapter(const LoraRequest& request) : folder_(request.folder) {
  if (!has_side_file(folder_, SideFile::kAdapterConfig)) {
    refuse(folder_, "has no adapter_config.json; give a folder that peft saved");
  }
  if (!entry_exists(folder_ / kWeightsFile)) {
    refuse(folder_, entry_exists(folder_ / "adapter_model.bin")
                        ? "has PyTorch weights only; save the adapter as safetensors first"
                        : "has no adapter_model.safetensors");
  }
  const LoraSettings settings(folder_);
  keeps_ties_ = settings.keeps_ties();
  file_ = std::make_unique<SafetensorsFile>(folder_ / kWeightsFile);
  read_tensors(settings, request.scale);
}

void LoraAdapter::read_tensors(const LoraSettings& settings, float scale) {
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
    const bool is_of_factor = name.find(".lora_") != std::string::npos;  // of a name of its own
    if (is_of_factor || !name.starts_with(kModelPrefix) || !name.ends_with(".weight")) {
      refuse(where, "tensor " + shown(name) +
                        " is no factor and replaces no matrix: not read; merge the adapter with "
                        "peft (merge_and_unload) and convert that");
    }
    std::string target = name_in_model(name);
    const bool is_base = take_out(kBaseLayer, &target);
    for (const std::string_view part : kSavedModule) (void)take_out(part, &target);
    auto tensor = std::make_unique<SafetensorsTensor>(target, file_->file(), entry);
    if (!(is_base ? bases_ : replacements_).emplace(target, std::move(tensor)).second) {
      refuse(where, "replaces tensor " + shown(target) + " twice");
    }
  }
  settings.check_steps({modules.begin(), modules.end()});
  for (const std::string& module : modules) add_delta(settings, module, scale);
  if (deltas_.empty() && replacements_.empty()) refuse(where, "has no tensors");
}

void LoraAdapter::add_delta(const LoraSettings& settings, const std::string& module,
                            float scale_asked) {
  const fs::path& where = file_->file().path();
  const std::string shown_module = "module " + shown(module);
  if (!module.starts_with(kModelPrefix)) {
    refuse(where, shown_module + " is not of " + std::string(kModelPrefix));
  }
  const std::string target = name_in_model(module);
  const auto& tensors = file_->tensors();
  const SafetensorsEntry* right = nullptr;
  const SafetensorsEntry* left = nullptr;
  bool of_embedding = false;
  for (const FactorNames& factors : kFactors) {
    const auto a = tensors.find(module + std::string(factors.right));
    const auto b = tensors.find(module + std::string(factors.left));
    if (a == tensors.end() && b == tensors.end()) continue;
    if (right != nullptr || left != nullptr) refuse(where, shown_module + " appears twice");
    if (a == tensors.end() || b == tensors.end()) {
      refuse(where, shown_module + " has only one of its two factors");
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
  if (rank == 0 || rank > kMaxRank || static_cast<double>(rank) != settings.rank_of(target)) {
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
      refuse(where, shown_module + " has values that are infinite or not numbers");
    }
    return values;
  };
  LoraDelta delta = {left->shape[0],    right->shape[1],
                     memory_size(rank), static_cast<float>(settings.scale_of(target)) * scale_asked,
                     values_of(*left),  values_of(*right)};
  if (!std::isfinite(delta.scale))
    refuse(where, shown_module + " has a scale that is not a number");
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
  if (!deltas_.emplace(target + ".weight", std::move(delta)).second) {
    refuse(where, shown_module + " appears twice");
  }
}

std::vector<fs::path> LoraAdapter::inputs() const {
  return {side_file_path(folder_, SideFile::kAdapterConfig), folder_ / kWeightsFile,
          folder_ / "adapter_model.bin"};
}

}  // namespace cria::converter
