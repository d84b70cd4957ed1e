// cria tokenize: the ids of a text. The session is opened with the smallest context there is, so
// weights of an uncompressed file stay unread; those of a compressed one are loaded for nothing.
#include <unistd.h>

#include <string>
#include <vector>

#include "platforms/hosted/commands.h"
#include "platforms/hosted/input_text.h"
#include "platforms/hosted/model_session.h"
#include "platforms/hosted/text_stream.h"
#include "platforms/hosted/token_sinks.h"

namespace cria::hosted {

ExitCode run_command(const TokenizeOptions& options) {
  CommonOptions common = options.common;
  if (common.context == 0) common.context = 1;
  // Found out before the text is read and the weights are loaded.
  if (ModelFile(common.model_path, common.mapping).info().has_tokenizer == 0) {
    throw_status(CRIA_NO_TOKENIZER, common.model_path);
  }
  const std::string text = read_text_file(options.input);
  const ModelSession model(common, {.max_text_bytes = text.size(), .trust_weights = true});
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
