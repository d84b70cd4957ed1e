// What is typed or piped into a chat: messages of one line, or of several, and commands.
#pragma once

#include <memory>
#include <string>

#include "platforms/hosted/cli/idle_work.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/line_editor.h"
#include "platforms/hosted/cli/line_history.h"

namespace cria::hosted {

// Puts lines together: a backslash at the end of one goes on in the next; """ at the beginning, or
// after a command's name, begins a text of as many lines as there are until one ends with """.
class MessageLines {
 public:
  // The line begins anew: nothing was typed yet.
  void clear();
  bool is_empty() const { return !goes_on_; }
  // Adds a line; true when that was the last. Throws ProgramError for more than 16 MiB.
  bool add(const std::string& line);

  const std::string& text() const { return text_; }
  // Whether a slash at its beginning may name a command.
  bool may_be_command() const { return !is_quoted_; }

 private:
  bool add_quoted(std::string line);

  std::string text_;
  bool goes_on_ = false;
  bool is_in_block_ = false;
  bool is_quoted_ = false;  // began with """
};

enum class HistoryUse { kNever, kKept };

class MessageReader {
 public:
  // is_interactive: on a terminal, whose lines may go on and name commands.
  MessageReader(int descriptor, bool is_interactive, HistoryUse history);

  struct Message {
    std::string text;
    bool may_be_command = false;
  };
  // Prompts where that is interactive; works while nothing is typed. kCleared is dealt with here.
  LineResult next(Message* message, const IdleWork& work = nullptr);
  // Lets the user change text; kCleared where nothing is left of it. Throws ProgramError kUsage
  // where there is no editor.
  LineResult edit(const std::string& text, std::string* edited);

 private:
  LineResult next_line(bool goes_on, const IdleWork& work, std::string* line);

  const bool is_interactive_;
  LineReader lines_;
  std::unique_ptr<LineEditor> editor_;
  std::unique_ptr<LineHistory> history_;
};

}  // namespace cria::hosted
