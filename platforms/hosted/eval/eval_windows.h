// Cuts a text into the windows that cria eval scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// Tokens from first_scored on are scored, each given those before it.
struct EvalWindow {
  std::vector<uint32_t> tokens;  // at least 2, at most the context
  size_t first_scored = 1;       // at least 1, below the number of tokens
};

// How a text becomes windows.
enum class EvalProtocol {
  kDocuments,  // documents one by one, every token after BOS scored
  kHalves,     // llama-perplexity's: the whole text as it stands, of each window the second half
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
// window_tokens - 1 tokens; without one (CRIA_NO_TOKEN) a window's first token is only context.
void cut_windows(const std::vector<uint32_t>& tokens, uint32_t bos, size_t window_tokens,
                 std::vector<EvalWindow>* windows);

// Windows of window_tokens (>= 4) tokens; what is left at the end is not scored. tokens begin with
// bos, which takes the place of the first token of every other window too. Of a window of n tokens
// those after n / 2 are scored. Without a bos (CRIA_NO_TOKEN) every token stays.
void cut_halves(const std::vector<uint32_t>& tokens, uint32_t bos, size_t window_tokens,
                std::vector<EvalWindow>* windows);

// kDocuments: splits at the text of the model's BOS token, encodes each document with special
// tokens parsed, and cuts it. kHalves: encodes the text with BOS and cuts it. Throws ProgramError.
EvalText cut_eval_windows(const ModelSession& model, const std::string& text,
                          EvalProtocol protocol);

// The same of a text of token ids, parted by commas or blanks: with kDocuments each line is a
// document without BOS. For models without a tokenizer. name is what messages call the text.
EvalText cut_id_windows(const ModelSession& model, const std::string& text, const std::string& name,
                        EvalProtocol protocol);

}  // namespace cria::hosted
