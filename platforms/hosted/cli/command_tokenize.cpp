// cria tokenize: the ids of a text or of a conversation. The weights stay unread.
#include <unistd.h>

#include <string>
#include <vector>

#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/message_file.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/model_tokens.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

std::vector<uint32_t> tokens_of_text(const TokenizeOptions& options, const std::string& text) {
  const ModelSession model(options.common, {.max_text_bytes = text.size(), .text_only = true});
  uint32_t flags = 0;
  if (options.add_special) flags |= CRIA_ENCODE_SPECIAL;
  if (options.parse_special) flags |= CRIA_ENCODE_PARSE;
  return encode_text(model, text, flags);
}

std::vector<uint32_t> tokens_of_chat(const TokenizeOptions& options, const std::string& text) {
  Conversation conversation = parse_conversation(text, name_of_input(options.input));
  if (!options.tools.empty()) {
    parse_tools(read_text_file(options.tools), name_of_input(options.tools), &conversation);
  }
  if (!options.template_args.empty()) {
    parse_template_args(options.template_args, "--template-args", &conversation);
  }
  return encode_conversation(options.common, options.date, conversation,
                             options.closed ? CRIA_TURN_CLOSED : CRIA_TURN_OPENED);
}

}  // namespace

ExitCode run_command(const TokenizeOptions& options) {
  // Found out before the text is read.
  const cria_model_info info = ModelFile(options.common.model_path, options.common.mapping).info();
  if (info.has_tokenizer == 0) throw_status(CRIA_NO_TOKENIZER, options.common.model_path);
  if (options.is_chat && info.chat_template == 0) {
    throw_status(CRIA_NO_CHAT_TEMPLATE, options.common.model_path);
  }
  const std::string text = read_text_file(options.input);
  TextStream out(STDOUT_FILENO);
  bool first = true;
  for (const uint32_t token :
       options.is_chat ? tokens_of_chat(options, text) : tokens_of_text(options, text)) {
    if (!first) out.put(" ");
    first = false;
    out.put(std::to_string(token));
  }
  out.put("\n");
  out.flush();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
