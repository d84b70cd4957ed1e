// A Hugging Face checkpoint folder as one set of tensors, whether it is one file or many shards.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "converter/safetensors.h"

namespace cria::converter {

// Where a tensor's values are. Valid as long as the Checkpoint.
struct SourceTensor {
  std::string name;
  const InputFile* file;
  SafetensorsEntry entry;
};

// The name of weights in one file.
inline constexpr const char* kWeightsFile = "model.safetensors";

class Checkpoint {
 public:
  // Takes model.safetensors when the folder has it, else the shards of
  // model.safetensors.index.json. Throws ProgramError; the line names the file or tensor.
  explicit Checkpoint(const std::filesystem::path& folder);

  [[nodiscard]] const std::map<std::string, SourceTensor>& tensors() const { return tensors_; }
  // nullptr when there is no such tensor.
  [[nodiscard]] const SourceTensor* find(const std::string& name) const;
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  // Every safetensors file in use.
  [[nodiscard]] std::vector<std::filesystem::path> files() const;

 private:
  void open_single(const std::filesystem::path& path);
  void open_sharded(const std::filesystem::path& folder);

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::map<std::string, SourceTensor> tensors_;
};

}  // namespace cria::converter
