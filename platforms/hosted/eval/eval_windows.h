// Cuts a text into the windows that cria eval scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// Every token but the first is scored, each given those before it.
struct EvalWindow {
  std::vector<uint32_t> tokens;  // at least 2, at most the context
};

struct EvalText {
  size_t n_documents = 0;
  size_t window_tokens = 0;  // the context
  std::vector<EvalWindow> windows;
};

// Parts of text between occurrences of separator, empty ones left out; an empty separator cuts
// nothing.
std::vector<std::string_view> split_documents(std::string_view text, std::string_view separator);

// Windows of at most window_tokens (>= 2) tokens. With bos each starts with it and scores up to
// window_tokens - 1 tokens; without one (CRIA_NO_TOKEN) a window's first token is context alone.
void cut_windows(const std::vector<uint32_t>& tokens, uint32_t bos, size_t window_tokens,
                 std::vector<EvalWindow>* windows);

// Splits at the text of the model's BOS token, encodes each document with special tokens parsed,
// and cuts it. Throws ProgramError.
EvalText cut_eval_windows(const ModelSession& model, const std::string& text);

}  // namespace cria::hosted
