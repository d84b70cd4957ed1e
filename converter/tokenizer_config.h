// The small files beside a tokenizer: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json and the chat template's own.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "converter/json_input.h"
#include "converter/tokenizer_tables.h"

namespace cria::converter {

struct TokenizerConfig {
  // Texts of tokens by the names that templates have for them: bos_token, eos_token, pad_token, ...
  std::map<std::string, std::string, std::less<>> named;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::string chat_template;          // Jinja; empty: none
  std::string chat_template_path;     // of the file that has it
  std::vector<AddedToken> listed;     // with ids, ascending: what these files list
  bool lists_flags = false;           // added_tokens_decoder; added_tokens.json has none
  std::vector<AddedToken> mentioned;  // without: those named and extra ones that are not listed
  // Whether the order of mentioned is that of the files: who has no id yet gets the next in turn.
  bool is_in_order = true;
  std::vector<std::string> warnings;  // of templates that are there and cannot be used

  // The text of a named token; empty: none is named so.
  [[nodiscard]] std::string text_of(std::string_view name) const;
};

// A token as an object of any file of a folder says it, without its id. Throws ProgramError for
// members of another type.
[[nodiscard]] AddedToken read_added_token(const JsonObject& object);

// Reads those of the files that the folder has. Throws ProgramError for broken ones.
[[nodiscard]] TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace cria::converter
