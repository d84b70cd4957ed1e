// cria calls: text, thinking and calls of an answer, as JSON. The weights stay unread.
#include <unistd.h>

#include <cria_calls.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/serve/json_text.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

// More than a call is long.
constexpr size_t kHoldBytes = size_t{1} << 20;

// What a reader tells of an answer.
class Told {
 public:
  static void tell(void* context, const cria_calls_event* event) {
    static_cast<Told*>(context)->take(*event);
  }

  [[nodiscard]] std::string json(bool is_complete) const {
    return JsonText::object({{"content", text_or_null(text_)},
                             {"reasoning", text_or_null(thinking_)},
                             {"calls", calls_},
                             {"complete", is_complete}})
        .take();
  }

 private:
  static JsonText text_or_null(const std::string& text) {
    return text.empty() ? JsonText(nullptr) : JsonText(text);
  }

  void take(const cria_calls_event& event) {
    const std::string_view text(event.text, event.n_bytes);
    switch (event.kind) {
      case CRIA_CALLS_TEXT:
        text_ += text;
        break;
      case CRIA_CALLS_THINKING:
        thinking_ += text;
        break;
      case CRIA_CALLS_BEGIN:
        name_ = text;
        id_ = event.n_id == 0 ? std::string() : std::string(event.id, event.n_id);
        arguments_.clear();
        break;
      case CRIA_CALLS_ARGUMENTS:
        arguments_ += text;
        break;
      case CRIA_CALLS_END: {
        JsonText call =
            JsonText::object({{"name", name_}, {"arguments", JsonText::of(arguments_)}});
        if (!id_.empty()) call.put("id", id_);
        calls_.push_back(call);
        break;
      }
      case CRIA_CALLS_BROKEN:
        break;
    }
  }

  std::string text_;
  std::string thinking_;
  std::string name_;
  std::string id_;
  std::string arguments_;
  JsonText calls_ = JsonText::array();
};

}  // namespace

ExitCode run_command(const CallsOptions& options) {
  if (options.tools == "-" && options.input == "-") {
    throw ProgramError(ExitCode::kUsage, "the tools and the answer cannot both be standard input");
  }
  const ModelSession model(options.common, {.text_only = true});
  size_t n_format = 0;
  const void* const format = cria_call_format(model.model(), &n_format);
  if (format == nullptr) {
    throw ProgramError(ExitCode::kInvalidInput,
                       model.path() +
                           ": does not say how the model writes calls; convert it "
                           "again, with a chat template that does");
  }
  const std::string tools = options.tools.empty() ? "" : read_text_file(options.tools);
  const std::string answer = read_text_file(options.input);
  size_t n_bytes = 0;
  const cria_status status =
      cria_calls_required(format, n_format, tools.data(), tools.size(), kHoldBytes, &n_bytes);
  if (status == CRIA_UNSUPPORTED || status == CRIA_TEXT_TOO_LONG) {
    throw ProgramError(
        ExitCode::kInvalidInput,
        name_of_input(options.tools) + ": is no list of tools, or one that is too long");
  }
  model.check(status);
  ArenaMemory memory(n_bytes);
  cria_calls* calls = nullptr;
  model.check(cria_calls_make(memory.data(), memory.size_bytes(), format, n_format, tools.data(),
                              tools.size(), kHoldBytes, &calls));
  Told told;
  cria_calls_ending ending = CRIA_CALLS_STOPPED;
  model.check(cria_calls_begin(calls, options.opened.data(), options.opened.size()));
  model.check(cria_calls_read(calls, answer.data(), answer.size(), Told::tell, &told));
  model.check(cria_calls_finish(calls, CRIA_CALLS_STOPPED, Told::tell, &told, &ending));
  TextStream out(STDOUT_FILENO);
  out.put(told.json(ending == CRIA_CALLS_STOPPED));
  out.put("\n");
  out.flush();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
