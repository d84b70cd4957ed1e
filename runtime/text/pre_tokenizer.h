// Cuts text into the words that merges stay inside.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/prefixed_text.h"
#include "quant/tokenizer_format.h"

namespace cria {

// Where the word that starts at offset < text.n_bytes ends; greater than offset.
// Bytes that are no UTF-8 count as a character that is neither letter, number nor space.
// Cost: linear in the word; text behind the word is read no further than one character past it.
[[nodiscard]] size_t word_end(format::PreTokenizer kind, const PrefixedText& text, size_t offset);

}  // namespace cria
