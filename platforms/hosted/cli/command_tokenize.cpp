// cria tokenize: the ids of a text. The weights stay unread.
#include <unistd.h>

#include <string>

#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/model_tokens.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {

ExitCode run_command(const TokenizeOptions& options) {
  const CommonOptions& common = options.common;
  // Found out before the text is read.
  if (ModelFile(common.model_path, common.mapping).info().has_tokenizer == 0) {
    throw_status(CRIA_NO_TOKENIZER, common.model_path);
  }
  const std::string text = read_text_file(options.input);
  const ModelSession model(common, {.max_text_bytes = text.size(), .text_only = true});
  uint32_t flags = 0;
  if (options.add_special) flags |= CRIA_ENCODE_SPECIAL;
  if (options.parse_special) flags |= CRIA_ENCODE_PARSE;
  TextStream out(STDOUT_FILENO);
  bool first = true;
  for (const uint32_t token : encode_text(model, text, flags)) {
    if (!first) out.put(" ");
    first = false;
    out.put(std::to_string(token));
  }
  out.put("\n");
  out.flush();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
