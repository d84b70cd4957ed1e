// cria chat: a conversation, message by message.
#include <unistd.h>

#include <new>
#include <string>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/cli/chat_date.h"
#include "platforms/hosted/cli/chat_session.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/generation.h"
#include "platforms/hosted/cli/message_reader.h"
#include "platforms/hosted/cli/prompt_cache.h"
#include "platforms/hosted/cli/sampling_table.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/cli/tool_commands.h"
#include "platforms/hosted/session/interrupt.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/model_text.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

std::string trimmed(const std::string& line) {
  constexpr char kSpace[] = " \t\r";
  const size_t begin = line.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(kSpace) - begin + 1);
}

// Of /set: whether the model thinks, where its template has a switch for it.
constexpr const char* kThinkingName = "thinking";
constexpr struct {
  const char* name;
  cria_thinking thinking;
} kThinkingWords[] = {
    {"auto", CRIA_THINKING_DEFAULT}, {"on", CRIA_THINKING_ON}, {"off", CRIA_THINKING_OFF}};

double per_second(uint32_t count, double seconds) {
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

class ChatProgram {
 public:
  ChatProgram(const ChatOptions& options, const ModelSession& model)
      : model_(model),
        cache_(model, options.prompt_cache, Follows::kMore),
        chat_(model, options.exact_context),
        sampling_(options.sampling),
        thinking_(options.thinking.shown),
        is_interactive_(is_terminal(STDIN_FILENO)),
        messages_(STDIN_FILENO, is_interactive_,
                  options.history ? HistoryUse::kKept : HistoryUse::kNever) {
    chat_.set_thinking(options.thinking.wanted);
    chat_.begin(options.system);
    if (cache_.is_there()) cache_.restore(chat_.lead());
    reseed();  // after restore, which brings the random state of a cache
    if (options.common.verbose && !sampling_.greedy) {
      print_notice(text_of("seed %llu", static_cast<unsigned long long>(*sampling_.seed)));
    }
  }

  ExitCode run();

 private:
  enum class Next { kGoOn, kLeave };
  enum class Argument { kNone, kOptional, kFile };
  struct Command {
    const char* name;
    const char* argument;  // what the help calls it; null: none
    Argument kind;
    const char* help;  // a line of at most 25 columns each
    Next (ChatProgram::*run)(const std::string& argument);
  };
  static const Command kCommands[];

  void greet() const;
  void reseed();
  bool is_greedy() const;
  ChatRequest request() const;
  Next handle(const std::string& message, bool is_command);
  Next command(const std::string& line);
  Next show(const ChatAnswer& answer);
  void report(const ChatAnswer& answer);
  void begin_anew(const std::string& system);

  Next help(const std::string& argument);
  Next reset(const std::string& argument);
  Next change_system(const std::string& argument);
  Next answer_again(const std::string& argument);
  Next take_back(const std::string& argument);
  Next edit(const std::string& argument);
  Next set(const std::string& argument);
  Next set_thinking(const std::string& value);
  const char* thinking_words() const;
  Next save(const std::string& argument);
  Next load(const std::string& argument);
  Next print_stats(const std::string& argument);
  Next leave(const std::string&) { return Next::kLeave; }

  const ModelSession& model_;
  PromptCache cache_;
  ChatSession chat_;
  SamplingOptions sampling_;
  const Thinking thinking_;
  const bool is_interactive_;
  MessageReader messages_;
  TextStream out_{STDOUT_FILENO};
  ChatAnswer last_;
  ExitCode exit_code_ = ExitCode::kDone;
};

const ChatProgram::Command ChatProgram::kCommands[] = {
    {"/help", nullptr, Argument::kNone, "this list", &ChatProgram::help},
    {"/reset", nullptr, Argument::kNone, "forget the conversation", &ChatProgram::reset},
    {"/system", "TEXT", Argument::kOptional, "the same, with another\nsystem text; alone: show",
     &ChatProgram::change_system},
    {"/regen", nullptr, Argument::kNone, "answer again", &ChatProgram::answer_again},
    {"/undo", nullptr, Argument::kNone, "forget the last exchange", &ChatProgram::take_back},
    {"/edit", "TEXT", Argument::kOptional, "say this instead; alone:\nchange what you said",
     &ChatProgram::edit},
    {"/set", "NAME X", Argument::kOptional, "change how tokens are\ndrawn; alone: show",
     &ChatProgram::set},
    {"/save", "FILE", Argument::kFile, "keep the conversation", &ChatProgram::save},
    {"/load", "FILE", Argument::kFile, "go back to it", &ChatProgram::load},
    {"/stats", nullptr, Argument::kNone, "speed and memory", &ChatProgram::print_stats},
    {"/exit", nullptr, Argument::kNone, "leave; also /quit, Ctrl-D", &ChatProgram::leave},
    {"/quit", nullptr, Argument::kNone, nullptr, &ChatProgram::leave},
};

// After the commands in the help.
constexpr char kHelpEnd[] =
    "Ctrl-C         stop the answer; drop\n"
    "               the line, or leave\n"
    "A line that ends with \\ goes on in the\n"
    "next; \"\"\" begins a text of many lines,\n"
    "and \"\"\" ends it. A line that starts\n"
    "with a space is a message even if a /\n"
    "follows.\n";

void ChatProgram::reseed() {
  sampling_.seed = seed_of(sampling_);
  cria_seed(model_.session(), *sampling_.seed);
}

bool ChatProgram::is_greedy() const {
  const cria_sampling sampling = sampling_of(sampling_);
  return sampling.temperature == 0.0f || sampling.top_k == 1;
}

ChatRequest ChatProgram::request() const {
  return {.sampling = sampling_of(sampling_),
          .max_tokens = sampling_.max_tokens.value_or(0),
          .thinking = thinking_};
}

void ChatProgram::greet() const {
  print_notice(
      text_of("%s: %s parameters, %u tokens of context. /help lists the commands, Ctrl-D "
              "leaves.",
              model_.path().c_str(), short_count(model_.info().n_parameters).c_str(),
              cria_context(model_.session())));
}

ChatProgram::Next ChatProgram::print_stats(const std::string&) {
  print_notice(text_of("%u of %u tokens, %zu messages", cria_position(model_.session()),
                       cria_context(model_.session()), chat_.n_messages()));
  const cria_chat_result& last = last_.result;
  if (last.n_answered > 0) {
    print_notice(text_of("last answer: %u tokens read at %.1f tokens/s, %u made at %.1f tokens/s",
                         last.n_read, per_second(last.n_read, last_.read_seconds), last.n_answered,
                         per_second(last.n_answered - 1, last_.answer_seconds)));
  }
  print_notice(text_of(
      "%s of memory, %s of the file in place; backend %s, "
      "--threads %u",
      megabytes(model_.plan().total).c_str(), megabytes(model_.plan().in_place).c_str(),
      kernels_text(cria_backend_name(model_.model()), cria_isa_name(model_.model())).c_str(),
      model_.config().n_threads));
  return Next::kGoOn;
}

void ChatProgram::report(const ChatAnswer& answer) {
  const uint32_t context = cria_context(model_.session());
  const uint32_t n_dropped = answer.result.n_dropped;
  if (n_dropped > 0) {
    const cria_model_info& info = model_.info();
    const char* const reread =
        info.can_drop != 0 ? ""
        : info.keeps_blocks != 0
            ? " and read the rest again, as no exchange can be taken out of its layers' state"
            : " and read the rest again, whose positions cannot move";
    print_notice(text_of("(the context of %u tokens was full: forgot the oldest %u exchange%s%s)",
                         context, n_dropped, n_dropped == 1 ? "" : "s", reread));
  }
  if (answer.result.end == CRIA_CHAT_FULL) {
    print_notice(text_of("(the answer filled the context of %u tokens and was cut)", context));
  }
  if (answer.result.end == CRIA_CHAT_STOPPED && is_interactive_) print_notice("(stopped)");
}

ChatProgram::Next ChatProgram::show(const ChatAnswer& answer) {
  last_ = answer;
  if (last_.is_empty) out_.put("\n");  // is a line too
  out_.end_line();
  report(last_);
  if (cache_.is_there()) cache_.keep(chat_.lead());
  if (out_.closed()) return Next::kLeave;
  if (last_.result.end == CRIA_CHAT_STOPPED && !is_interactive_) {
    exit_code_ = ExitCode::kInterrupted;
    return Next::kLeave;
  }
  return Next::kGoOn;
}

ChatProgram::Next ChatProgram::help(const std::string&) {
  constexpr int kNameColumns = 15;
  std::string text;
  for (const Command& each : kCommands) {
    if (each.help == nullptr) continue;
    std::string name = each.name;
    if (each.argument != nullptr) name += std::string(" ") + each.argument;
    std::string lines = each.help;
    const size_t end = lines.find('\n');
    if (end != std::string::npos) lines.insert(end + 1, kNameColumns, ' ');
    text += text_of("%-*s%s\n", kNameColumns, name.c_str(), lines.c_str());
  }
  write_stderr(text + kHelpEnd);
  return Next::kGoOn;
}

void ChatProgram::begin_anew(const std::string& system) {
  chat_.begin(system);
  if (cache_.is_there()) cache_.expect(chat_.lead());
  print_notice("(a new conversation)");
}

ChatProgram::Next ChatProgram::reset(const std::string&) {
  begin_anew(chat_.system());
  return Next::kGoOn;
}

ChatProgram::Next ChatProgram::change_system(const std::string& argument) {
  if (argument.empty()) {
    const std::string system = chat_.system();
    print_notice(system.empty() ? "(no system text)" : system);
    return Next::kGoOn;
  }
  begin_anew(argument);
  return Next::kGoOn;
}

ChatProgram::Next ChatProgram::answer_again(const std::string&) {
  if (is_greedy() && !chat_.question().empty()) {
    print_notice("(greedy: the likeliest answer is the same again; /set temperature 0.8)");
  }
  return show(chat_.answer_again(request(), &out_));
}

ChatProgram::Next ChatProgram::take_back(const std::string&) {
  chat_.take_back();
  std::string notice =
      text_of("(forgot the last exchange; %zu messages are left", chat_.n_messages());
  if (chat_.n_dropped() > 0) notice += "; what the context had no room for stays forgotten";
  print_notice(notice + ")");
  return Next::kGoOn;
}

ChatProgram::Next ChatProgram::edit(const std::string& argument) {
  std::string message = argument;
  if (message.empty()) {
    const LineResult got = messages_.edit(chat_.question(), &message);
    if (got == LineResult::kInterrupted || got == LineResult::kCleared) return Next::kGoOn;
    if (got == LineResult::kEnd) return Next::kLeave;
  }
  clear_interrupt();
  return show(chat_.answer_instead(trimmed(message), request(), &out_));
}

ChatProgram::Next ChatProgram::set(const std::string& argument) {
  if (argument.empty()) {
    write_stderr(settings_text(sampling_) + setting_row(kThinkingName, thinking_words()));
    return Next::kGoOn;
  }
  const size_t space = argument.find_first_of(" \t");
  const std::string name = argument.substr(0, space);
  const std::string value = space == std::string::npos ? "" : trimmed(argument.substr(space));
  if (name == kThinkingName) return set_thinking(value);
  SamplingOptions changed = sampling_;
  change_setting(name, value, &changed);
  sampling_ = changed;
  if (name == "seed") reseed();
  return Next::kGoOn;
}

const char* ChatProgram::thinking_words() const {
  for (const auto& row : kThinkingWords) {
    if (row.thinking == chat_.thinking()) return row.name;
  }
  return "";
}

ChatProgram::Next ChatProgram::set_thinking(const std::string& value) {
  for (const auto& row : kThinkingWords) {
    if (value != row.name) continue;
    chat_.set_thinking(row.thinking);
    return Next::kGoOn;
  }
  throw ProgramError(ExitCode::kUsage,
                     value.empty() ? "thinking needs a value: /set thinking on, off or auto"
                                   : "thinking: '" + shown(value) + "' is not on, off or auto");
}

ChatProgram::Next ChatProgram::save(const std::string& argument) {
  clear_interrupt();
  chat_.save(argument, request());
  print_notice("(saved " + argument + ")");
  return Next::kGoOn;
}

ChatProgram::Next ChatProgram::load(const std::string& argument) {
  chat_.load(argument);
  print_notice(text_of("(loaded %zu messages)", chat_.n_messages()));
  return Next::kGoOn;
}

ChatProgram::Next ChatProgram::command(const std::string& line) {
  chat_.take_ahead_back();
  const size_t space = line.find_first_of(" \t\n");
  const std::string name = line.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : trimmed(line.substr(space));
  for (const Command& each : kCommands) {
    if (name != each.name) continue;
    if (each.kind == Argument::kNone && !argument.empty()) {
      throw ProgramError(ExitCode::kUsage, name + " takes no argument");
    }
    if (each.kind == Argument::kFile && argument.empty()) {
      throw ProgramError(ExitCode::kUsage, name + " needs a file name: " + name + " FILE");
    }
    if (each.kind == Argument::kFile && argument == "-") {
      throw ProgramError(ExitCode::kUsage, name + " needs a file name; - is not one");
    }
    return (this->*each.run)(argument);
  }
  throw ProgramError(
      ExitCode::kUsage,
      name + " is not a command; /help lists them. A space before the / makes the line a message");
}

ChatProgram::Next ChatProgram::handle(const std::string& message, bool is_command) {
  const std::string text = trimmed(message);
  if (text.empty()) return Next::kGoOn;
  return is_command ? command(text) : show(chat_.answer(text, request(), &out_));
}

// On a terminal an error is told and the conversation goes on; elsewhere it ends the program.
ExitCode ChatProgram::run() {
  const InterruptGuard guard(SecondInterrupt::kIsTheSame);
  if (is_interactive_) greet();
  for (;;) {
    // Text that comes through a pipe was written by somebody else, who is not to choose files to
    // write.
    bool is_command = false;
    try {
      MessageReader::Message message;
      const LineResult got =
          messages_.next(&message, [this] { return chat_.read_ahead(request(), STDIN_FILENO); });
      if (got != LineResult::kLine) {
        if (is_interactive_) write_stderr("\n");
        return got == LineResult::kInterrupted && !is_interactive_ ? ExitCode::kInterrupted
                                                                   : ExitCode::kDone;
      }
      is_command = message.may_be_command && message.text.starts_with('/');
      if (handle(message.text, is_command) == Next::kLeave) return exit_code_;
    } catch (const ProgramError& error) {
      const bool output_failed = error.code() == ExitCode::kIo && !is_command;
      if (!is_interactive_ || output_failed) throw;
      out_.end_line();
      print_notice(std::string("cria: error: ") + error.what());
    } catch (const std::bad_alloc&) {
      // A command's copy of the state did not fit.
      if (!is_interactive_ || !is_command) throw;
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
  if (file.info().pooling != 0) {
    throw ProgramError(ExitCode::kInvalidInput,
                       file.path() + ": makes embeddings and does not answer; use cria embed");
  }
  if (file.info().chat_template == 0) throw_status(CRIA_NO_CHAT_TEMPLATE, file.path());
  if (!options.tools.tools.empty()) return chat_with_tools(options);
  const uint32_t context =
      options.common.context != 0 ? options.common.context : file.info().planned_context;
  const ModelSession model(options.common, {.max_text_bytes = chat_text_bytes(context)});
  if (!options.date.empty()) set_chat_date(model, options.date);
  return ChatProgram(options, model).run();
}

}  // namespace cria::hosted
