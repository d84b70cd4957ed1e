#include "platforms/hosted/eval/eval_windows.h"

#include <algorithm>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/session/model_tokens.h"

namespace cria::hosted {

std::vector<std::string_view> split_documents(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> documents;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = separator.empty() ? std::string_view::npos : text.find(separator, begin);
    if (end == std::string_view::npos) end = text.size();
    if (end > begin) documents.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return documents;
}

void cut_windows(const std::vector<uint32_t>& tokens, uint32_t bos, size_t window_tokens,
                 std::vector<EvalWindow>* windows) {
  const bool has_bos = bos != CRIA_NO_TOKEN;
  const size_t most = window_tokens - (has_bos ? 1 : 0);
  for (size_t begin = 0; begin < tokens.size(); begin += most) {
    const size_t end = std::min(begin + most, tokens.size());
    EvalWindow window;
    window.tokens.reserve(end - begin + (has_bos ? 1 : 0));
    if (has_bos) window.tokens.push_back(bos);
    window.tokens.insert(window.tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                         tokens.begin() + static_cast<std::ptrdiff_t>(end));
    if (window.tokens.size() >= 2) windows->push_back(std::move(window));
  }
}

EvalText cut_eval_windows(const ModelSession& model, const std::string& text) {
  EvalText result;
  result.window_tokens = cria_context(model.session());
  if (result.window_tokens < 2) {
    throw ProgramError(ExitCode::kUsage, "eval needs a --context of 2 or more");
  }
  const uint32_t bos = model.info().bos_token;
  const std::string separator = bos == CRIA_NO_TOKEN ? "" : token_text(model, bos);
  for (const std::string_view document : split_documents(text, separator)) {
    ++result.n_documents;
    cut_windows(encode_text(model, std::string(document), CRIA_ENCODE_PARSE), bos,
                result.window_tokens, &result.windows);
  }
  return result;
}

}  // namespace cria::hosted
