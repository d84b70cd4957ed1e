#include "platforms/hosted/cli/message_reader.h"

#include <string_view>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/session/interrupt.h"

namespace cria::hosted {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr const char* kPrompt = ">";
constexpr const char* kMorePrompt = ".";

// Where a line's """ is that begins a block: at its beginning, or after a command's name.
size_t quotes_at(const std::string& line) {
  constexpr const char* kSpace = " \t";
  size_t at = line.find_first_not_of(kSpace);
  if (at == 0 && line[0] == '/') {
    const size_t space = line.find_first_of(kSpace);
    at = space == std::string::npos ? space : line.find_first_not_of(kSpace, space);
  }
  if (at == std::string::npos || line.compare(at, kQuotes.size(), kQuotes) != 0) {
    return std::string::npos;
  }
  return at;
}

}  // namespace

void MessageLines::clear() { *this = {}; }

// Within a block: true when the line ends it.
bool MessageLines::add_quoted(std::string line) {
  const size_t end = line.find_last_not_of(" \t");
  const bool ends = end != std::string::npos && end + 1 >= kQuotes.size() &&
                    line.compare(end + 1 - kQuotes.size(), kQuotes.size(), kQuotes) == 0;
  if (ends) line.resize(end + 1 - kQuotes.size());
  text_ += line;
  if (!ends) text_ += '\n';
  is_in_block_ = !ends;
  return ends;
}

bool MessageLines::add(const std::string& line) {
  constexpr size_t kMostBytes = size_t{16} << 20;
  if (text_.size() + line.size() > kMostBytes) {
    clear();
    throw ProgramError(ExitCode::kInvalidInput, "a message has more than 16 MiB; shorten it");
  }
  const size_t quotes = goes_on_ ? std::string::npos : quotes_at(line);
  goes_on_ = true;
  if (is_in_block_) return add_quoted(line);
  if (quotes != std::string::npos) {
    is_quoted_ = line[0] != '/';
    if (!is_quoted_) text_ = line.substr(0, quotes);
    const std::string rest = line.substr(quotes + kQuotes.size());
    is_in_block_ = true;
    return !rest.empty() && add_quoted(rest);
  }
  const bool goes_on = !line.empty() && line.back() == '\\';
  text_.append(line, 0, line.size() - (goes_on ? 1 : 0));
  if (goes_on) text_ += '\n';
  return !goes_on;
}

MessageReader::MessageReader(int descriptor, bool is_interactive, HistoryUse history)
    : is_interactive_(is_interactive), lines_(descriptor) {
  if (is_interactive_) editor_ = make_line_editor();
  if (editor_ == nullptr) return;
  history_ =
      std::make_unique<LineHistory>(history == HistoryUse::kKept ? history_path() : std::string());
  for (const std::string& line : history_->lines()) editor_->remember(line);
}

LineResult MessageReader::next_line(bool goes_on, const IdleWork& work, std::string* line) {
  const char* const prompt = goes_on ? kMorePrompt : kPrompt;
  if (editor_ != nullptr) {
    const LineResult got = editor_->next(prompt, work, line);
    if (got != LineResult::kLine || line->find_first_not_of(" \t") == std::string::npos) return got;
    editor_->remember(*line);
    history_->add(*line);
    return got;
  }
  if (is_interactive_) write_stderr(coloured(Colour::kPrompt, prompt) + " ");
  return lines_.next(line, work);
}

LineResult MessageReader::next(Message* message, const IdleWork& work) {
  MessageLines lines;
  std::string line;
  for (;;) {
    // Before the prompt shows: from then on Ctrl-C means to leave, or to stop the next answer.
    if (is_interactive_) clear_interrupt();
    const LineResult got = next_line(!lines.is_empty(), work, &line);
    const bool is_taken_back =
        got == LineResult::kCleared || (got == LineResult::kInterrupted && !lines.is_empty());
    if (is_taken_back) {
      // The editor ends a line that it threw away, and none where nothing was typed.
      if (editor_ == nullptr || got == LineResult::kInterrupted) write_stderr("\n");
      lines.clear();
      continue;
    }
    if (got != LineResult::kLine) return got;
    if (!is_interactive_) {
      *message = {line, false};
      return got;
    }
    if (!lines.add(line)) continue;
    *message = {lines.text(), lines.may_be_command()};
    return got;
  }
}

LineResult MessageReader::edit(const std::string& text, std::string* edited) {
  if (editor_ == nullptr) {
    throw ProgramError(ExitCode::kUsage, "/edit needs the new text, as no line can be edited here");
  }
  clear_interrupt();
  editor_->edit(text);
  const LineResult got = editor_->next(kPrompt, nullptr, edited);
  if (got != LineResult::kLine) return got;
  if (edited->find_first_not_of(" \t\n") == std::string::npos) return LineResult::kCleared;
  editor_->remember(*edited);
  history_->add(*edited);
  return got;
}

}  // namespace cria::hosted
