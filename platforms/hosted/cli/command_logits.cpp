// cria logits: what the model says after every token, for comparing implementations.
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/progress_line.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/eval/logits_by_token.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/model_tokens.h"

namespace cria::hosted {

ExitCode run_command(const LogitsOptions& options) {
  if (options.output == "-" && ::isatty(STDOUT_FILENO) != 0) {
    throw ProgramError(ExitCode::kUsage,
                       "logits are bytes, which a terminal cannot show; give -o a file name");
  }
  constexpr size_t kExtra = 2;  // BOS and EOS
  const size_t n_text_bytes = options.text ? options.text->size() : 0;
  const size_t most_tokens = std::max(options.ids.size(), n_text_bytes + kExtra);
  constexpr size_t kMostContext = 1 << 24;
  const ModelSession model(
      options.common, {.min_context = static_cast<uint32_t>(std::min(most_tokens, kMostContext)),
                       .max_text_bytes = n_text_bytes});
  std::vector<uint32_t> ids = options.ids;
  if (options.text) {
    model.need_tokenizer();
    ids = encode_text(model, *options.text, CRIA_ENCODE_SPECIAL);
  }
  if (ids.empty()) throw ProgramError(ExitCode::kInvalidInput, "there are no tokens");
  check_ids(model, ids);
  if (ids.size() > cria_context(model.session())) {
    throw ProgramError(ExitCode::kInvalidInput,
                       text_of("%zu tokens do not fit a context of %u; %s", ids.size(),
                               cria_context(model.session()), model.advice_on_length()));
  }

  model.check_output(options.output);
  OutputFile file(options.output, InPlace::kWhereNeeded);
  ProgressLine progress("logits");
  LogitsByToken(model).run(ids, [&](size_t index, std::span<const float> logits) {
    file.append(logits.data(), logits.size_bytes());
    progress.update(index + 1, ids.size(), "");
    return !file.reader_left();
  });
  file.commit();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
