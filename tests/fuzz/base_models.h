// The model files that hostile ones are made of: tiny, converted when a target starts.
#pragma once

#include <span>
#include <vector>

#include "tests/fuzz/model_draft.h"

namespace cria::fuzz {

// Two layers and 300 tokens each: stored and compressed, every number format, byte-level and
// SentencePiece tokenizers, tied and untied. Their order is part of the corpora.
[[nodiscard]] const std::vector<Bytes>& base_models();

// The SentencePiece tokenizer's section.
[[nodiscard]] Bytes spaced_tokenizer_section();

}  // namespace cria::fuzz
