// The small files beside a tokenizer: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json and the chat template's own.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "converter/tokenizer_tables.h"

namespace cria::converter {

struct TokenizerConfig {
  std::string bos;  // text of the token; empty: none named
  std::string eos;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::string chat_template;       // Jinja; empty: none
  std::string chat_template_path;  // of the file that has it
  std::vector<AddedToken> added;
  std::vector<std::string> warnings;  // of templates that are there and cannot be used
};

// Reads those of the files that the folder has. Throws ProgramError for broken ones.
[[nodiscard]] TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace cria::converter
