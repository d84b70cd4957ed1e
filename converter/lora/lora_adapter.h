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
struct LoraRequest {
  std::filesystem::path folder;
  float scale = 1.0F;  // times what the adapter says of itself
};

class LoraSettings;

class LoraAdapter {
 public:
  using Tensors = std::map<std::string, std::unique_ptr<SourceTensor>>;

  // Reads the whole adapter but for what it replaces. Throws ProgramError, whose line names the
  // file and the key or tensor: also for what is no LoRA or changes more than matrices.
  explicit LoraAdapter(const LoraRequest& request);

  // By the name of the tensor that each changes: "model.layers.0.self_attn.q_proj.weight".
  [[nodiscard]] const std::map<std::string, LoraDelta>& deltas() const { return deltas_; }
  // By the same names, what is put in their place.
  [[nodiscard]] const Tensors& replacements() const { return replacements_; }
  // By the same names, what the deltas are added to, where the adapter has it.
  [[nodiscard]] const Tensors& bases() const { return bases_; }
  // Whether what changes the embedding changes the output layer that is tied to it, too.
  [[nodiscard]] bool keeps_ties() const { return keeps_ties_; }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const;

 private:
  void read_tensors(const LoraSettings& settings, float scale);
  void add_delta(const LoraSettings& settings, const std::string& module, float scale_asked);

  std::filesystem::path folder_;
  std::unique_ptr<SafetensorsFile> file_;
  std::map<std::string, LoraDelta> deltas_;
  Tensors replacements_;
  Tensors bases_;
  bool keeps_ties_ = false;
};

}  // namespace cria::converter
