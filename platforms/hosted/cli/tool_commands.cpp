#include "platforms/hosted/cli/tool_commands.h"

#include <unistd.h>

#include <limits>
#include <string>
#include <utility>

#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/chat/conversation_json.h"
#include "platforms/hosted/cli/chat_date.h"
#include "platforms/hosted/cli/generation.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/message_file.h"
#include "platforms/hosted/cli/message_reader.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/cli/tool_talk.h"
#include "platforms/hosted/session/interrupt.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {
namespace {

ToolChoice choice_of(const ToolOptions& options, const Conversation& conversation) {
  const std::string& choice = options.choice;
  const std::string where = name_of_input(options.tools);
  if (choice == "auto") return {CRIA_TOOLS_AUTO, {}, where};
  if (choice == "none") return {CRIA_TOOLS_NONE, {}, where};
  if (choice == "required") return {CRIA_TOOLS_REQUIRED, {}, where};
  if (has_tool(conversation, choice)) return {CRIA_TOOLS_NAMED, choice, where};
  throw ProgramError(ExitCode::kUsage,
                     "--tool-choice: " + where + " has no tool '" + shown(choice) +
                         "'; give auto, none, required or one of: " + tool_names(conversation));
}

Conversation beginning_of(const ToolOptions& options) {
  Conversation conversation;
  parse_tools(read_text_file(options.tools), name_of_input(options.tools), &conversation);
  if (conversation.tools.empty()) {
    throw ProgramError(ExitCode::kInvalidInput, name_of_input(options.tools) + ": has no tools");
  }
  return conversation;
}

uint32_t context_of(const CommonOptions& common) {
  if (common.context != 0) return common.context;
  return ModelFile(common.model_path, common.mapping).info().planned_context;
}

uint32_t limit_of(const SamplingOptions& sampling) {
  return sampling.max_tokens.value_or(std::numeric_limits<uint32_t>::max());
}

}  // namespace

ExitCode answer_with_tools(const RunOptions& options, const std::string& question) {
  if (!options.prompt || options.json || options.json_schema || !options.prompt_cache.empty()) {
    throw ProgramError(ExitCode::kUsage,
                       "--tools needs a question (-p) and cannot be combined with --ids, --json, "
                       "--json-schema or --prompt-cache");
  }
  Conversation conversation = beginning_of(options.tools);
  ToolChoice choice = choice_of(options.tools, conversation);
  const uint64_t n_bytes =
      ToolTalk::text_bytes(conversation, context_of(options.common)) + question.size();
  const ModelSession model(options.common, {.max_text_bytes = n_bytes});
  ToolTalk talk(model, std::move(conversation), std::move(choice));
  cria_seed(model.session(), seed_of(options.sampling));
  TextStream out(STDOUT_FILENO);
  const InterruptGuard guard(SecondInterrupt::kEndsProgram);
  talk.say(question);
  const Generation made =
      talk.answer(sampling_of(options.sampling), limit_of(options.sampling), &out);
  if (talk.is_cut()) report_cut(model, "call", made.stop);
  if (made.stop == Stop::kInterrupted) return ExitCode::kInterrupted;
  return talk.is_cut() ? ExitCode::kIncomplete : ExitCode::kDone;
}

ExitCode chat_with_tools(const ChatOptions& options) {
  if (!options.prompt_cache.empty()) {
    throw ProgramError(ExitCode::kUsage, "--tools and --prompt-cache cannot be combined");
  }
  Conversation conversation = beginning_of(options.tools);
  ToolChoice choice = choice_of(options.tools, conversation);
  conversation.thinking = options.thinking.wanted;
  if (!options.system.empty()) conversation.messages.push_back({CRIA_SYSTEM, options.system});
  const uint64_t n_bytes = ToolTalk::text_bytes(conversation, context_of(options.common));
  const ModelSession model(options.common, {.max_text_bytes = n_bytes});
  if (!options.date.empty()) set_chat_date(model, options.date);
  ToolTalk talk(model, std::move(conversation), std::move(choice));
  cria_seed(model.session(), seed_of(options.sampling));
  const bool is_interactive = is_terminal(STDIN_FILENO);
  MessageReader messages(STDIN_FILENO, is_interactive,
                         options.history ? HistoryUse::kKept : HistoryUse::kNever);
  TextStream out(STDOUT_FILENO);
  const InterruptGuard guard(SecondInterrupt::kIsTheSame);
  for (;;) {
    MessageReader::Message message;
    const LineResult got = messages.next(&message);
    if (got == LineResult::kInterrupted && !is_interactive) return ExitCode::kInterrupted;
    if (got != LineResult::kLine) return ExitCode::kDone;
    // No command writes a file, so that lines of a pipe may be some.
    const bool may_be_command = message.may_be_command || !is_interactive;
    if (may_be_command && message.text == "/reset") {
      talk.reset();
      continue;
    }
    if (may_be_command && (message.text == "/exit" || message.text == "/quit")) {
      return ExitCode::kDone;
    }
    if (message.text.empty() && !talk.waits()) continue;
    clear_interrupt();
    talk.say(message.text);
    if (talk.waits()) continue;
    try {
      const Generation made =
          talk.answer(sampling_of(options.sampling), limit_of(options.sampling), &out);
      if (made.stop == Stop::kOutputClosed) return ExitCode::kDone;
      if (talk.is_cut()) report_cut(model, "call", made.stop);
      if (made.stop == Stop::kInterrupted && !is_interactive) return ExitCode::kInterrupted;
    } catch (const ProgramError& error) {
      if (!is_interactive || error.code() == ExitCode::kIo) throw;
      talk.take_back();
      print_notice(std::string("cria: error: ") + error.what());
    }
    if (is_interactive && talk.waits()) print_notice("(type the result)");
  }
}

}  // namespace cria::hosted
