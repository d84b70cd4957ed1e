// An adapter as PEFT saves it (adapter_config.json, adapter_model.safetensors): LoRA's two factors
// of what is added to a matrix, and matrices that it replaces.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "converter/safetensors.h"
#include "converter/source_tensor.h"

namespace cria::converter {

// What is added to a matrix of shape [n_rows][n_cols]: scale times left [n_rows][rank] times right
// [rank][n_cols].
struct LoraDelta {
  uint64_t n_rows;
  uint64_t n_cols;
  size_t rank;
  float scale;
  std::vector<float> left;
  std::vector<float> right;
};

// What the user asks for: --lora DIR[:SCALE].
struct LoraWish {
  std::filesystem::path folder;
  float scale = 1.0F;  // times what the adapter says of itself
};

class LoraAdapter {
 public:
  // Reads the whole adapter but for what it replaces. Throws ProgramError, whose line names the
  // file and the key or tensor: also for what is no LoRA or changes more than matrices.
  explicit LoraAdapter(const LoraWish& wish);

  // By the name of the tensor that each changes: "model.layers.0.self_attn.q_proj.weight".
  [[nodiscard]] const std::map<std::string, LoraDelta>& deltas() const { return deltas_; }
  // By the same names, what is put in their place; taken out of the adapter.
  [[nodiscard]] std::map<std::string, std::unique_ptr<SourceTensor>> take_replacements() {
    return std::move(replacements_);
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const;

 private:
  struct Settings;
  void read_tensors(const Settings& settings, float scale);
  void add_delta(const Settings& settings, const std::string& module, float wished_scale);

  std::filesystem::path folder_;
  std::unique_ptr<SafetensorsFile> file_;
  std::map<std::string, LoraDelta> deltas_;
  std::map<std::string, std::unique_ptr<SourceTensor>> replacements_;
};

}  // namespace cria::converter
