// The model files that hostile ones are made of: tiny, converted when a target starts.
#pragma once

#include <span>
#include <vector>

#include "tests/fuzz/model_draft.h"

namespace cria::fuzz {

// Two layers and 300 tokens each: stored and compressed, every number format, byte-level and
// SentencePiece tokenizers, tied and untied. Their order is part of the corpora.
[[nodiscard]] const std::vector<Bytes>& base_models();

// Of random kinds of layers, stacks among their tensors, without tokenizers: not all are built in.
[[nodiscard]] const std::vector<Bytes>& models_of_kinds();

// The SentencePiece tokenizer's section.
[[nodiscard]] Bytes spaced_tokenizer_section();

}  // namespace cria::fuzz
