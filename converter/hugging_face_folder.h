// A Hugging Face checkpoint folder as one set of tensors, whether it is one file or many shards.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "converter/checkpoint.h"
#include "converter/safetensors.h"

namespace cria::converter {

class HuggingFaceFolder : public Checkpoint {
 public:
  explicit HuggingFaceFolder(const std::filesystem::path& folder) : Checkpoint(folder) {}

  [[nodiscard]] ConfigFiles read_config() const override;
  [[nodiscard]] std::string name_in_files(const std::string& name) const override;
  // Takes model.safetensors when the folder has it, else the shards of
  // model.safetensors.index.json.
  void open_weights() override;
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const override;
  [[nodiscard]] std::filesystem::path guarded_folder() const override { return path(); }
  [[nodiscard]] std::string weights_text() const override;
  [[nodiscard]] ImportedTokenizer read_tokenizer(
      uint32_t vocab_size, std::span<const uint32_t> end_tokens,
      const ChatTemplateChoice* chat_choice) const override;

  // Every safetensors file in use.
  [[nodiscard]] const std::vector<std::unique_ptr<SafetensorsFile>>& shards() const {
    return shards_;
  }

 private:
  void open_single(const std::filesystem::path& file);
  void open_sharded();
  // Gives stored_ the names that the model itself has for its tensors.
  void rename_stored();
  // Tensors as the files have them, and those that several of them make.
  void add_tensors();
  // The same where matrices are BitNet's codes.
  void add_ternary();

  struct Stored {
    const InputFile* file;
    const SafetensorsEntry* entry;
    std::string name;  // in the file
  };

  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::map<std::string, Stored> stored_;
  bool is_respelled_ = false;  // tensors() has other names than the files
};

}  // namespace cria::converter
