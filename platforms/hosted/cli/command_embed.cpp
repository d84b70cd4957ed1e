// cria embed: what texts mean, as rows of numbers that can be compared.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/serve/json_text.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/model_tokens.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

// A newline at the end begins no text.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string& line = lines.emplace_back(text, at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    at = end + 1;
  }
  return lines;
}

std::vector<std::string> texts_of(const EmbedOptions& options) {
  if (options.text) return {*options.text};
  const std::string input = read_text_file(options.input);
  return options.whole ? std::vector<std::string>{input} : lines_of(input);
}

// Before weights are read, so that the context can be as long as the longest text.
std::vector<std::vector<uint32_t>> tokens_of(const EmbedOptions& options,
                                             const std::vector<std::string>& texts) {
  size_t n_most = 0;
  for (const std::string& text : texts) n_most = std::max(n_most, text.size());
  CommonOptions common = options.common;
  common.verbose = false;
  const ModelSession model(common, {.max_text_bytes = n_most, .text_only = true});
  std::vector<std::vector<uint32_t>> tokens;
  for (const std::string& text : texts) {
    tokens.push_back(encode_text(model, text, CRIA_ENCODE_SPECIAL));
    if (!tokens.back().empty()) continue;
    throw ProgramError(ExitCode::kInvalidInput,
                       text_of("text %zu has no tokens; leave empty lines out", tokens.size()));
  }
  return tokens;
}

void put_row(const std::vector<float>& values, size_t n, TextStream* out) {
  std::string line = "[";
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) line += ", ";
    line += JsonText(values[i]).text();
  }
  out->put(line + "]\n");
  out->flush();
}

}  // namespace

ExitCode run_command(const EmbedOptions& options) {
  const cria_model_info info = ModelFile(options.common.model_path, options.common.mapping).info();
  if (info.has_tokenizer == 0) throw_status(CRIA_NO_TOKENIZER, options.common.model_path);
  if (options.dimensions > info.d_model) {
    throw ProgramError(ExitCode::kUsage,
                       text_of("--dimensions %u is more than the %u that the model's embeddings "
                               "have",
                               options.dimensions, info.d_model));
  }
  const std::vector<std::vector<uint32_t>> texts = tokens_of(options, texts_of(options));
  size_t n_most = 0;
  for (const auto& tokens : texts) n_most = std::max(n_most, tokens.size());
  const ModelSession model(
      options.common,
      {.min_context = static_cast<uint32_t>(std::min<size_t>(n_most, info.max_context))});
  std::vector<float> embedding(cria_d_model(model.model()));
  TextStream out(STDOUT_FILENO);
  for (size_t i = 0; i < texts.size() && !out.closed(); ++i) {
    if (texts[i].size() > cria_context(model.session())) {
      throw ProgramError(
          ExitCode::kInvalidInput,
          text_of("text %zu: %zu tokens do not fit a context of %u; %s", i + 1, texts[i].size(),
                  cria_context(model.session()), model.advice_on_length()));
    }
    model.check(cria_embed(model.workspace(), model.session(), texts[i].data(), texts[i].size(),
                           options.dimensions, embedding.data()));
    put_row(embedding, options.dimensions != 0 ? options.dimensions : embedding.size(), &out);
  }
  return ExitCode::kDone;
}

}  // namespace cria::hosted
