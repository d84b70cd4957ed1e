// The tokenizer and chat template in the metadata of a GGUF file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "converter/json_input.h"
#include "converter/tokenizer_config.h"
#include "converter/tokenizer_tables.h"

namespace cria::converter {

// Throws ProgramError that begins with where: there is no tokenizer, a kind that is not read, or
// tables that are broken.
[[nodiscard]] TokenizerModel read_gguf_tokenizer(const Json& metadata, const std::string& where);

// What a folder's tokenizer_config.json would say: the chat template, and the names of tokens.
[[nodiscard]] TokenizerConfig gguf_tokenizer_config(const Json& metadata, const std::string& where);

// The ids of the tokens that end a turn by their texts, whatever the file says of them: llama.cpp
// ends answers at these.
[[nodiscard]] std::vector<uint32_t> gguf_turn_ends(const Json& metadata);

}  // namespace cria::converter
