// A GGUF file, or the files that one was split into, as a checkpoint.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "converter/checkpoint.h"
#include "converter/gguf/gguf_file.h"
#include "converter/gguf/gguf_names.h"

namespace cria::converter {

class GgufCheckpoint : public Checkpoint {
 public:
  // Reads the headers of the file and of its other parts. Throws ProgramError as GgufFile does, and
  // for a part that is missing or was named in place of the first.
  explicit GgufCheckpoint(const std::filesystem::path& path);

  [[nodiscard]] ConfigFiles read_config() const override;
  [[nodiscard]] std::string name_in_files(const std::string& name) const override;
  [[nodiscard]] bool has_weights_at_hand() const override { return true; }
  void open_weights() override;
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const override;
  [[nodiscard]] std::filesystem::path guarded_folder() const override { return {}; }
  [[nodiscard]] std::string weights_text() const override;
  [[nodiscard]] ImportedTokenizer read_tokenizer(
      uint32_t vocab_size, std::span<const uint32_t> end_tokens,
      const ChatTemplateChoice* chat_choice) const override;

 private:
  void open_parts();
  // What the file calls a bias of a layer's part; empty: there is none, or they add nothing.
  [[nodiscard]] std::string_view find_bias(std::string_view part) const;
  [[nodiscard]] bool has_keys_without_values() const;
  void add_missing_biases();
  [[nodiscard]] std::unique_ptr<SourceTensor> make_tensor(const GgufFile& file,
                                                          const GgufEntry& entry) const;
  // Each matrix by its own name, which has its number; false: one is there already.
  bool add_stack(const std::string& name, const GgufFile& file, const GgufEntry& entry);
  // nullptr: none of that name.
  [[nodiscard]] const GgufEntry* find_entry(std::string_view name) const;
  // The values of a vector; empty when there is none of that name.
  [[nodiscard]] std::vector<float> read_vector(std::string_view name) const;
  // Of the rows of q or k; 0: of another tensor, or where they do not fit the metadata's heads.
  [[nodiscard]] uint32_t head_dim(const GgufEntry& entry) const;
  [[nodiscard]] uint32_t n_key_heads(uint32_t otherwise) const;
  [[nodiscard]] const Json& metadata() const { return files_.front()->metadata(); }

  std::vector<std::unique_ptr<GgufFile>> files_;  // the named one first
  const GgufArchitecture* architecture_;
  uint64_t n_matrices_ = 0;  // of all stacks so far
};

}  // namespace cria::converter
