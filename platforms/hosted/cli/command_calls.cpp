// cria calls: text, thinking and calls of an answer, as JSON. The weights stay unread.
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/serve/json_text.h"
#include "platforms/hosted/session/answer_parts.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {
namespace {

// More than a call is long.
constexpr size_t kHoldBytes = size_t{1} << 20;

JsonText text_or_null(const std::string& text) {
  return text.empty() ? JsonText(nullptr) : JsonText(text);
}

std::string json_of(const std::vector<AnswerPart>& parts, bool is_complete) {
  std::string text;
  std::string thinking;
  std::string arguments;
  JsonText calls = JsonText::array();
  const AnswerPart* begun = nullptr;
  for (const AnswerPart& part : parts) {
    switch (part.kind) {
      case CRIA_CALLS_TEXT:
        text += part.text;
        break;
      case CRIA_CALLS_THINKING:
        thinking += part.text;
        break;
      case CRIA_CALLS_BEGIN:
        begun = &part;
        arguments.clear();
        break;
      case CRIA_CALLS_ARGUMENTS:
        arguments += part.text;
        break;
      case CRIA_CALLS_END: {
        JsonText call =
            JsonText::object({{"name", begun->text}, {"arguments", JsonText::of(arguments)}});
        if (!begun->id.empty()) call.put("id", begun->id);
        calls.push_back(call);
        break;
      }
      case CRIA_CALLS_BROKEN:
        break;
    }
  }
  return JsonText::object({{"content", text_or_null(text)},
                           {"reasoning", text_or_null(thinking)},
                           {"calls", calls},
                           {"complete", is_complete}})
      .take();
}

}  // namespace

ExitCode run_command(const CallsOptions& options) {
  const ModelSession model(options.common, {.text_only = true});
  CallReading reading;
  reading.writing = std::make_shared<const CallWriting>(CallWriting::of(model.model()));
  if (reading.writing->format.empty()) {
    throw ProgramError(ExitCode::kInvalidInput,
                       model.path() +
                           ": does not say how the model writes calls; convert it "
                           "again, with a chat template that does");
  }
  reading.tools = options.tools.empty() ? "" : read_text_file(options.tools);
  reading.opened = options.opened;
  reading.takes_calls = true;
  const std::string answer = read_text_file(options.input);
  try {
    CallReader reader(reading, kHoldBytes);
    std::vector<AnswerPart> parts = reader.read(answer);
    const std::vector<AnswerPart> rest = reader.finish(false);
    parts.insert(parts.end(), rest.begin(), rest.end());
    TextStream out(STDOUT_FILENO);
    out.put(json_of(parts, reader.is_complete()) + "\n");
    out.flush();
  } catch (const std::invalid_argument&) {
    throw ProgramError(
        ExitCode::kInvalidInput,
        name_of_input(options.tools) +
            ": is not a list of tools as OpenAI's API has them, of 1 MiB and 64 levels at most");
  }
  return ExitCode::kDone;
}

}  // namespace cria::hosted
