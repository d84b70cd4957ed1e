// What tokenizer_encode and chat_encode share: text with parts that are trusted and parts that are
// not becomes tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/text/added_tokens.h"
#include "runtime/text/tokenizer.h"

namespace cria {

// Where tokens go.
struct TokenOutput {
  std::span<uint32_t> tokens;
  size_t n_tokens;
  bool discards;  // tokens are neither kept nor counted

  [[nodiscard]] Status put(uint32_t token) {
    if (discards) return Status::kOk;
    if (n_tokens == tokens.size()) return Status::kBufferTooSmall;
    tokens[n_tokens++] = token;
    return Status::kOk;
  }
};

// What stands before the text: it decides whether a space is prepended.
enum class TextStart { kNothing, kAddedToken, kText };

struct TextToEncode {
  std::span<const char> text;
  std::span<const TextRange> plain;  // where special tokens are not recognised
  bool special_needs_space;          // kTokenAfterSpace is honoured
  TextStart start;
};

// Appends the tokens of the text, without BOS and EOS. ends_with_added receives whether the text
// ends with an added token; an empty text leaves it as it is.
// Errors as tokenizer_encode.
[[nodiscard]] Status encode_text(const Tokenizer& tokenizer, const AddedTokens& added,
                                 const TextToEncode& input, std::span<uint8_t> workspace,
                                 TokenOutput* output, bool* ends_with_added);

}  // namespace cria
