#include "platforms/hosted/eval/eval_windows.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/token_ids.h"
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

void cut_halves(const std::vector<uint32_t>& tokens, uint32_t bos, size_t window_tokens,
                std::vector<EvalWindow>* windows) {
  for (size_t begin = 0; begin + window_tokens <= tokens.size(); begin += window_tokens) {
    EvalWindow window;
    window.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                         tokens.begin() + static_cast<std::ptrdiff_t>(begin + window_tokens));
    if (bos != CRIA_NO_TOKEN) window.tokens[0] = bos;
    window.first_scored = window_tokens / 2 + 1;
    windows->push_back(std::move(window));
  }
}

namespace {

constexpr size_t kLeastOfHalves = 4;

EvalText empty_text(const ModelSession& model, EvalProtocol protocol) {
  EvalText result;
  result.window_tokens = cria_context(model.session());
  const bool is_halves = protocol == EvalProtocol::kHalves;
  const size_t least = is_halves ? kLeastOfHalves : 2;
  if (result.window_tokens < least) {
    throw ProgramError(ExitCode::kUsage,
                       model.path() + ": eval" + (is_halves ? " --protocol halves" : "") +
                           " needs a --context of " + std::to_string(least) + " or more, not " +
                           std::to_string(result.window_tokens));
  }
  return result;
}

void need_whole_window(const EvalText& text, size_t n_tokens, const std::string& name) {
  if (!text.windows.empty()) return;
  throw ProgramError(ExitCode::kInvalidInput, name + ": has " + std::to_string(n_tokens) +
                                                  " tokens, fewer than a window of " +
                                                  std::to_string(text.window_tokens) +
                                                  "; give a longer text or a smaller --context");
}

std::vector<uint32_t> read_ids(std::string_view line, const std::string& name, size_t line_number,
                               uint32_t vocab_size) {
  std::vector<uint32_t> ids;
  const std::string problem = read_token_ids(line, vocab_size, &ids);
  if (problem.empty()) return ids;
  throw ProgramError(ExitCode::kInvalidInput, name + ": line " + std::to_string(line_number) + " " +
                                                  problem + "; give numbers, one document a line");
}

}  // namespace

EvalText cut_eval_windows(const ModelSession& model, const std::string& text,
                          EvalProtocol protocol) {
  EvalText result = empty_text(model, protocol);
  const uint32_t bos = model.info().bos_token;
  if (protocol == EvalProtocol::kHalves) {
    result.n_documents = 1;
    const std::vector<uint32_t> tokens = encode_text(model, text, CRIA_ENCODE_SPECIAL);
    cut_halves(tokens, bos, result.window_tokens, &result.windows);
    need_whole_window(result, tokens.size(), "the text");
    return result;
  }
  const std::string separator = bos == CRIA_NO_TOKEN ? "" : token_text(model, bos);
  for (const std::string_view document : split_documents(text, separator)) {
    ++result.n_documents;
    cut_windows(encode_text(model, std::string(document), CRIA_ENCODE_PARSE), bos,
                result.window_tokens, &result.windows);
  }
  return result;
}

EvalText cut_id_windows(const ModelSession& model, const std::string& text, const std::string& name,
                        EvalProtocol protocol) {
  EvalText result = empty_text(model, protocol);
  const uint32_t bos = model.info().bos_token;
  std::vector<uint32_t> all;
  size_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = std::string_view(text).substr(begin, end - begin);
    std::vector<uint32_t> ids = read_ids(line, name, ++line_number, model.info().vocab_size);
    begin = end + 1;
    if (ids.empty()) continue;
    ++result.n_documents;
    if (protocol == EvalProtocol::kHalves) {
      all.insert(all.end(), ids.begin(), ids.end());
    } else {
      cut_windows(ids, bos, result.window_tokens, &result.windows);
    }
  }
  if (protocol == EvalProtocol::kHalves) {
    cut_halves(all, bos, result.window_tokens, &result.windows);
    need_whole_window(result, all.size(), name);
  }
  return result;
}

}  // namespace cria::hosted
