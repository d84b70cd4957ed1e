// cria chat: a conversation, line by line.
#include <unistd.h>

#include <new>
#include <string>
#include <string_view>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/cli/chat_session.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/generation.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/session/interrupt.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

// No line is longer than 40 columns.
constexpr char kHelp[] =
    "/help         this list\n"
    "/reset        forget the conversation\n"
    "/system TEXT  the same, with another\n"
    "              system text; alone: show\n"
    "/save FILE    keep the conversation\n"
    "/load FILE    go back to it\n"
    "/stats        speed and memory\n"
    "/exit         leave; also Ctrl-D\n"
    "Ctrl-C        stop the answer\n"
    "A line that starts with a space is a\n"
    "message even if a / follows.\n";

std::string trimmed(const std::string& line) {
  constexpr char kSpace[] = " \t\r";
  const size_t begin = line.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(kSpace) - begin + 1);
}

double per_second(uint32_t count, double seconds) {
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

class ChatProgram {
 public:
  ChatProgram(const ChatOptions& options, const ModelSession& model)
      : model_(model),
        chat_(model, options.exact_context),
        sampling_(sampling_of(options.sampling)),
        max_tokens_(options.max_tokens.value_or(0)),
        is_interactive_(is_terminal(STDIN_FILENO)) {
    chat_.begin(options.system);
  }

  ExitCode run();

 private:
  enum class Next { kGoOn, kLeave };

  void greet() const;
  bool is_command(const std::string& line) const;
  Next handle(const std::string& line);
  Next command(const std::string& line);
  Next say(const std::string& message);
  void report(const ChatAnswer& answer);
  void print_stats() const;

  const ModelSession& model_;
  ChatSession chat_;
  const cria_sampling sampling_;
  const uint32_t max_tokens_;
  const bool is_interactive_;
  TextStream out_{STDOUT_FILENO};
  ChatAnswer last_;
  ExitCode exit_code_ = ExitCode::kDone;
};

void ChatProgram::greet() const {
  print_notice(
      text_of("%s: %s parameters, %u tokens of context. /help lists the commands, Ctrl-D "
              "leaves.",
              model_.path().c_str(), short_count(model_.info().n_parameters).c_str(),
              cria_context(model_.session())));
}

void ChatProgram::print_stats() const {
  print_notice(text_of("%u of %u tokens, %zu messages", cria_position(model_.session()),
                       cria_context(model_.session()), chat_.n_messages()));
  const cria_chat_result& last = last_.result;
  if (last.n_answered > 0) {
    print_notice(text_of("last answer: %u tokens read at %.1f tokens/s, %u made at %.1f tokens/s",
                         last.n_read, per_second(last.n_read, last_.read_seconds), last.n_answered,
                         per_second(last.n_answered - 1, last_.answer_seconds)));
  }
  print_notice(text_of(
      "%s of memory, %s of the file in place; backend %s, %s kernels, "
      "--threads %u",
      megabytes(model_.plan().total).c_str(), megabytes(model_.plan().in_place).c_str(),
      cria_backend_name(model_.model()), cria_isa_name(model_.model()), model_.config().n_threads));
}

void ChatProgram::report(const ChatAnswer& answer) {
  const uint32_t context = cria_context(model_.session());
  const uint32_t n_dropped = answer.result.n_dropped;
  if (n_dropped > 0) {
    print_notice(text_of("(the context of %u tokens was full: forgot the oldest %u exchange%s)",
                         context, n_dropped, n_dropped == 1 ? "" : "s"));
  }
  if (answer.result.end == CRIA_CHAT_FULL) {
    print_notice(text_of("(the answer filled the context of %u tokens and was cut)", context));
  }
  if (answer.result.end == CRIA_CHAT_STOPPED && is_interactive_) print_notice("(stopped)");
}

ChatProgram::Next ChatProgram::say(const std::string& message) {
  last_ = chat_.answer(message, sampling_, max_tokens_, &out_);
  if (last_.is_empty) out_.put("\n");  // is a line too
  out_.end_line();
  report(last_);
  if (out_.closed()) return Next::kLeave;
  if (last_.result.end == CRIA_CHAT_STOPPED && !is_interactive_) {
    exit_code_ = ExitCode::kInterrupted;
    return Next::kLeave;
  }
  return Next::kGoOn;
}

ChatProgram::Next ChatProgram::command(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : trimmed(line.substr(space));
  const bool needs_file = name == "/save" || name == "/load";
  if (needs_file && argument.empty()) {
    throw ProgramError(ExitCode::kUsage, name + " needs a file name");
  }
  if (needs_file && argument == "-") {
    throw ProgramError(ExitCode::kUsage, name + " takes a file, which - is not");
  }
  if (name == "/exit" || name == "/quit") return Next::kLeave;
  if (name == "/help") {
    write_stderr(kHelp);
  } else if (name == "/reset") {
    chat_.begin(chat_.system());
    print_notice("(a new conversation)");
  } else if (name == "/system" && argument.empty()) {
    const std::string system = chat_.system();
    print_notice(system.empty() ? "(no system text)" : system);
  } else if (name == "/system") {
    chat_.begin(argument);
    print_notice("(a new conversation)");
  } else if (name == "/save") {
    chat_.save(argument);
    print_notice("(saved " + argument + ")");
  } else if (name == "/load") {
    chat_.load(argument);
    print_notice(text_of("(loaded %zu messages)", chat_.n_messages()));
  } else if (name == "/stats") {
    print_stats();
  } else {
    throw ProgramError(ExitCode::kUsage, name + " is no command; /help lists them");
  }
  return Next::kGoOn;
}

// Text that comes through a pipe was written by somebody else, who is not to choose files to write.
bool ChatProgram::is_command(const std::string& line) const {
  return is_interactive_ && !line.empty() && line[0] == '/';
}

ChatProgram::Next ChatProgram::handle(const std::string& line) {
  const std::string message = trimmed(line);
  if (message.empty()) return Next::kGoOn;
  return is_command(line) ? command(message) : say(message);
}

// On a terminal an error is told and the conversation goes on; elsewhere it ends the program.
ExitCode ChatProgram::run() {
  const InterruptGuard guard(SecondInterrupt::kIsTheSame);
  LineReader lines(STDIN_FILENO);
  std::string line;
  if (is_interactive_) greet();
  for (;;) {
    // Before the prompt shows: from then on Ctrl-C means to leave, or to stop the next answer.
    if (is_interactive_) {
      clear_interrupt();
      write_stderr(coloured(Colour::kPrompt, "> "));
    }
    const LineResult got = lines.next(&line);
    if (got != LineResult::kLine) {
      if (is_interactive_) write_stderr("\n");
      return got == LineResult::kInterrupted && !is_interactive_ ? ExitCode::kInterrupted
                                                                 : ExitCode::kDone;
    }
    try {
      if (handle(line) == Next::kLeave) return exit_code_;
    } catch (const ProgramError& error) {
      const bool output_failed = error.code() == ExitCode::kIo && !is_command(line);
      if (!is_interactive_ || output_failed) throw;
      out_.end_line();
      print_notice(std::string("cria: error: ") + error.what());
    } catch (const std::bad_alloc&) {
      // A command's copy of the state did not fit; an answer allocates nothing.
      if (!is_interactive_ || !is_command(line)) throw;
      out_.end_line();
      print_notice("cria: error: out of memory; the conversation is as it was");
    }
  }
}

}  // namespace

ExitCode run_command(const ChatOptions& options) {
  const ModelFile file(options.common.model_path, options.common.mapping);
  if (file.info().has_tokenizer == 0) {
    throw ProgramError(ExitCode::kInvalidInput,
                       file.path() + ": the model file holds no tokenizer; cria run takes --ids");
  }
  if (file.info().chat_template == 0) throw_status(CRIA_NO_CHAT_TEMPLATE, file.path());
  const uint32_t context =
      options.common.context != 0 ? options.common.context : file.info().planned_context;
  const ModelSession model(options.common, {.max_text_bytes = chat_text_bytes(context)});
  const uint64_t seed = seed_of(options.sampling);
  cria_seed(model.session(), seed);
  if (options.common.verbose && !options.sampling.greedy) {
    print_notice(text_of("seed %llu", static_cast<unsigned long long>(seed)));
  }
  return ChatProgram(options, model).run();
}

}  // namespace cria::hosted
