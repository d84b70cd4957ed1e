// Reads the tokenizer and chat template of a checkpoint folder and builds the two file sections of
// quant/tokenizer_format.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cria::converter {

struct ImportedTokenizer {
  std::vector<uint8_t> tokenizer_section;
  std::vector<uint8_t> chat_section;  // empty: no template, or one that is not known
  std::optional<uint32_t> bos_token;
  std::vector<uint32_t> end_tokens;   // from the tokenizer's own config (eos_token), maybe empty
  std::string tokenizer_name;         // for the report: "byte-level BPE, 128256 tokens, llama3"
  std::string chat_name;              // "llama3.2" or "none"
  std::vector<std::string> warnings;  // one line each, for stderr
};

// Takes tokenizer.json when the folder has one, else tokenizer.model (SentencePiece); the chat
// template from tokenizer_config.json, chat_template.jinja or chat_template.json. vocab_size is the
// model's. Throws ConvertError: no tokenizer (the line names --no-tokenizer), an unsupported kind,
// a broken file, more tokens than the model has.
[[nodiscard]] ImportedTokenizer import_tokenizer(const std::filesystem::path& folder,
                                                 uint32_t vocab_size);

}  // namespace cria::converter
