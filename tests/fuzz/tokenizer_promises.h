// What holds for every tokenizer that the converter makes, whatever its files say.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/tokenizer.h"

namespace cria::fuzz {

// Encodes the text with as much room as any text needs.
[[nodiscard]] std::vector<uint32_t> encode_all(const Tokenizer& tokenizer, std::string_view text,
                                               const EncodeOptions& options);
// The text of the tokens, whole.
[[nodiscard]] std::string decode_all(const Tokenizer& tokenizer, std::span<const uint32_t> tokens,
                                     bool show_special);

// Tokens of the vocabulary only; no control token and no end token comes out of the text unless it
// is asked for; what comes out decodes to UTF-8.
void expect_safe_text(const Tokenizer& tokenizer, std::span<const uint32_t> end_tokens,
                      std::string_view text);
// The same of the texts of control and added tokens, alone and within text.
void expect_safe_token_texts(const Tokenizer& tokenizer, std::span<const uint32_t> end_tokens,
                             std::string_view text);

}  // namespace cria::fuzz
