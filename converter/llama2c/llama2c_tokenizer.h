// The tokenizer files of llama2.c (tokenizer.bin): the longest piece's length, then for each id a
// score, a length and a text. They are SentencePiece models: <unk>, <s>, </s> and the 256 byte
// pieces come first, and a space stands for U+2581.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "converter/tokenizer_tables.h"

namespace cria::converter {

// The most bytes such a file may have.
inline constexpr uint64_t kMaxLlama2cTokenizerBytes = 1 << 26;

// A file of exactly vocab_size pieces. Throws ProgramError that begins with where.
[[nodiscard]] TokenizerModel read_llama2c_tokenizer(std::span<const uint8_t> bytes,
                                                    uint32_t vocab_size, const std::string& where);

}  // namespace cria::converter
