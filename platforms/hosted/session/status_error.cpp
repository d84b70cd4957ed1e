#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

const char* advice(cria_status status) {
  switch (status) {
    case CRIA_NOT_A_MODEL:
      return "make one from a checkpoint with cria-convert";
    case CRIA_CORRUPT:
    case CRIA_TRUNCATED:
      return "copy or convert it again";
    case CRIA_INVALID_MODEL:
      return "convert the checkpoint again";
    case CRIA_UNSUPPORTED:
      return "try --backend auto without --isa";
    case CRIA_NO_TOKENIZER:
      return "give cria run or cria logits token ids with --ids";
    case CRIA_NO_CHAT_TEMPLATE:
      return "use cria run, or convert again with --chat-template NAME or FILE.jinja";
    case CRIA_TEXT_TOO_LONG:
    case CRIA_CONTEXT_FULL:
      return "shorten the text";
    case CRIA_READ_FAILED:
      return "check that nothing changes the file and that its disk works, or copy it again";
    case CRIA_BAD_STATE:
      return "load it with the model, --kv and version that saved it";
    case CRIA_BACKEND_FAILED:
      return "try --backend exact";
    default:
      return nullptr;
  }
}

}  // namespace

ExitCode exit_code_of(cria_status status) {
  switch (status) {
    case CRIA_OK:
      return ExitCode::kDone;
    case CRIA_INVALID_ARGUMENT:
      return ExitCode::kUsage;
    case CRIA_READ_FAILED:
      return ExitCode::kIo;
    case CRIA_MEMORY_TOO_SMALL:
      return ExitCode::kMemory;
    default:
      return ExitCode::kInvalidInput;
  }
}

void throw_status(cria_status status, const std::string& where) {
  throw_status(status, where, advice(status));
}

void throw_status(cria_status status, const std::string& where, const char* what_to_do) {
  std::string message = where + ": " + cria_status_message(status);
  if (what_to_do != nullptr) {
    message += "; ";
    message += what_to_do;
  }
  throw StatusError(status, message);
}

void check_status(cria_status status, const std::string& where) {
  if (status != CRIA_OK) throw_status(status, where);
}

}  // namespace cria::hosted
