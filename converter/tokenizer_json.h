// Reads tokenizer.json, the format of Hugging Face's tokenizers library, where it holds BPE.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "converter/tokenizer_tables.h"

namespace cria::converter {

// Byte-level BPE (the pre-tokenizers of format::PreTokenizer) and SentencePiece-style BPE (spaces
// replaced by U+2581 in the normalizer or by a Metaspace pre-tokenizer). What is in the file and
// not supported is refused by name, never passed over: ProgramError. Adds a line to warnings for
// what is supported in part.
[[nodiscard]] TokenizerModel read_tokenizer_json(const std::filesystem::path& folder,
                                                 std::vector<std::string>* warnings);

}  // namespace cria::converter
