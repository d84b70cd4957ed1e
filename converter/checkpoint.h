// What a conversion reads, whatever its files are: tensors by the names that Hugging Face gives
// them, a config in config.json's words, a tokenizer.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "converter/embedding_modules.h"
#include "converter/json_input.h"
#include "converter/source_tensor.h"
#include "converter/tensor_names.h"
#include "converter/tokenizer_import.h"

namespace cria::converter {

// config.json and generation_config.json, or what says the same.
struct ConfigFiles {
  std::shared_ptr<const Json> config;
  std::string where;                       // of config, for error lines
  KeyNames key_names;                      // of config's keys, where the file is no config.json
  std::shared_ptr<const Json> generation;  // nullptr: none
  std::string generation_where;
  std::vector<std::string> warnings;
  // What divides each frequency of the rotary embedding, after config's scaling; empty: nothing.
  std::vector<float> rope_factors;
  StoredForm form;                            // what the kind of file says of it
  std::optional<EmbeddingModules> embedding;  // of a model of embeddings
};

class Checkpoint {
 public:
  explicit Checkpoint(std::filesystem::path path) : path_(std::move(path)) {}
  virtual ~Checkpoint() = default;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // The folder or file that the user named.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // Throws ProgramError; the line names the file.
  [[nodiscard]] virtual ConfigFiles read_config() const = 0;
  // Whether it makes two matrices of one that config says serves as embedding and output layer;
  // also before open_weights.
  [[nodiscard]] virtual bool unties() const { return false; }
  // What the files call the tensor that tensors() has by this name.
  [[nodiscard]] virtual std::string name_in_files(const std::string& name) const { return name; }
  // Whether open_weights reads no more files than read_config does.
  [[nodiscard]] virtual bool has_weights_at_hand() const { return false; }
  // Fills tensors(). Throws ProgramError; the line names the file or tensor.
  virtual void open_weights() = 0;
  // Every file that a conversion reads, or would read if it were there; open_weights has been
  // called.
  [[nodiscard]] virtual std::vector<std::filesystem::path> inputs() const = 0;
  // The folder in which no file is replaced but those that cria-convert made; empty: none.
  [[nodiscard]] virtual std::filesystem::path guarded_folder() const = 0;
  // What its weights are: "GGUF version 3, Q4_K, F32"; open_weights has been called.
  [[nodiscard]] virtual std::string weights_text() const = 0;
  // As converter/tokenizer_import.h says.
  [[nodiscard]] virtual ImportedTokenizer read_tokenizer(
      uint32_t vocab_size, std::span<const uint32_t> end_tokens,
      const ChatTemplateChoice* chat_choice) const = 0;

  // By the names that Hugging Face gives them.
  [[nodiscard]] const std::map<std::string, std::unique_ptr<SourceTensor>>& tensors() const {
    return tensors_;
  }
  // nullptr when there is no such tensor.
  [[nodiscard]] const SourceTensor* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : found->second.get();
  }

 protected:
  // name: as Hugging Face calls it. False when there is one of that name.
  bool add(std::string name, std::unique_ptr<SourceTensor> tensor) {
    return tensors_.emplace(std::move(name), std::move(tensor)).second;
  }
  // The number types of the tensors, that with the most values first: "Q4_K, Q6_K, F32".
  [[nodiscard]] std::string types_text() const;

 private:
  std::filesystem::path path_;
  std::map<std::string, std::unique_ptr<SourceTensor>> tensors_;
};

// The reader for what path is. tokenizer: its file where the user named one. Throws ProgramError
// for what none of them reads, and (kUsage) where a tokenizer of its own has no place.
[[nodiscard]] std::unique_ptr<Checkpoint> open_checkpoint(
    const std::filesystem::path& path,
    const std::optional<std::filesystem::path>& tokenizer = std::nullopt);

}  // namespace cria::converter
