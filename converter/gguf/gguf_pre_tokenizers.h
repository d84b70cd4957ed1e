// The pre-tokenizers that GGUF files name, in the words of tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "converter/json_input.h"

namespace cria::converter {

// Where a file is silent.
inline constexpr const char* kDefaultPreTokenizer = "default";

struct GgufPreTokenizer {
  Json pre_tokenizer;  // of tokenizer.json
  Json normalizer;     // likewise; null: none
  bool ignore_merges;
  bool adds_bos;  // where the file does not say
};

// Throws ProgramError that begins with where for a name that is not known.
[[nodiscard]] GgufPreTokenizer gguf_pre_tokenizer(std::string_view name, const std::string& where);

}  // namespace cria::converter
