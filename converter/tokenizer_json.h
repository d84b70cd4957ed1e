// Reads tokenizer.json, the format of Hugging Face's tokenizers library, where it holds BPE.
#pragma once

#include <filesystem>

#include "converter/json_input.h"
#include "converter/tokenizer_tables.h"

namespace cria::converter {

// Byte-level BPE (with regexes as converter/regex_syntax.h has them) and SentencePiece-style BPE
// (spaces replaced by U+2581 in the normalizer or by a Metaspace pre-tokenizer). What is in the
// file and not supported is refused by name, never passed over: ProgramError.
[[nodiscard]] TokenizerModel read_tokenizer_json(const std::filesystem::path& folder);
// The same of what the file holds; where names it in errors.
[[nodiscard]] TokenizerModel tokenizer_from_json(const Json& root, const std::string& where);

}  // namespace cria::converter
