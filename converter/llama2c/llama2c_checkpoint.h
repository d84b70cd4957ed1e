// A model file of llama2.c and its tokenizer's as a checkpoint.
#pragma once

#include <filesystem>
#include <optional>

#include "converter/checkpoint.h"
#include "converter/llama2c/llama2c_file.h"

namespace cria::converter {

class Llama2cCheckpoint : public Checkpoint {
 public:
  // tokenizer  its file; nothing: tokenizer.bin beside path, else tok<vocabulary size>.bin
  // Throws ProgramError as InputFile and read_llama2c do.
  Llama2cCheckpoint(const std::filesystem::path& path,
                    std::optional<std::filesystem::path> tokenizer);

  [[nodiscard]] ConfigFiles read_config() const override;
  void open_weights() override;
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const override;
  [[nodiscard]] std::filesystem::path guarded_folder() const override { return {}; }
  [[nodiscard]] std::string weights_text() const override;
  [[nodiscard]] ImportedTokenizer read_tokenizer(
      uint32_t vocab_size, std::span<const uint32_t> end_tokens,
      const ChatTemplateChoice* chat_choice) const override;

 private:
  // Where the tokenizer may be; the first that is there counts.
  [[nodiscard]] std::vector<std::filesystem::path> tokenizer_places() const;

  InputFile file_;
  Llama2cFile contents_;
  std::optional<std::filesystem::path> tokenizer_;
};

}  // namespace cria::converter
