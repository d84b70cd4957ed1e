// Reads tokenizer.model as Meta publishes it with Llama 3, the format of the tiktoken library: a
// line for each token, its bytes in base64 and its rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "converter/tokenizer_tables.h"

namespace cria::converter {

// True for such a file; the other format with this name is SentencePiece's.
[[nodiscard]] bool is_tiktoken_file(std::span<const uint8_t> bytes);

// The bytes of each token, by its rank. Throws ProgramError that begins with where for what is no
// such file, ranks with gaps, a token that is there twice, and a byte that is no token.
[[nodiscard]] std::vector<std::string> parse_tiktoken_file(std::string_view text,
                                                           const std::string& where);

// Byte-level BPE of such tokens, whose ids are their ranks: of all neighbours in a word that
// together are a token those of the lowest rank are merged, the leftmost of equal ones, and a word
// that is a token stays whole. Without a pre-tokenizer and special tokens. Throws ProgramError.
[[nodiscard]] TokenizerModel tokenizer_from_ranks(std::span<const std::string> tokens,
                                                  const std::string& where);

// The tokenizer of Llama 3, whose regex and special tokens are not in the file: those of Llama 3.1
// and later, which give names to some that the first release reserves, unless named has others for
// their ids. Throws ProgramError when tokens are not as many as Llama 3 has.
[[nodiscard]] TokenizerModel tokenizer_from_llama3_ranks(std::span<const std::string> tokens,
                                                         std::span<const AddedToken> named,
                                                         const std::string& where);

}  // namespace cria::converter
