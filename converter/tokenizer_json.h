// Reads tokenizer.json, the format of Hugging Face's tokenizers library, where it holds BPE.
#pragma once

#include <filesystem>

#include "converter/json_input.h"
#include "converter/tokenizer_config.h"
#include "converter/tokenizer_tables.h"

namespace cria::converter {

// Byte-level BPE (with regexes as converter/regex_syntax.h has them) and SentencePiece-style BPE
// (spaces replaced by U+2581 in the normalizer or by a Metaspace pre-tokenizer). What is in the
// file and not supported is refused by name, never passed over: ProgramError.
// config has the tokens that the files beside it name.
[[nodiscard]] TokenizerModel read_tokenizer_json(const std::filesystem::path& folder,
                                                 const TokenizerConfig& config);
// The same of what the file holds; where names it in errors. beside null: there are no other files,
// and added tokens have the ids that root gives them.
[[nodiscard]] TokenizerModel tokenizer_from_json(const Json& root, const std::string& where,
                                                 const TokenizerConfig* beside = nullptr);

}  // namespace cria::converter
