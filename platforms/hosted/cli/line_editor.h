// Lines that are edited on a terminal: cursor keys, history, characters of any width. With libedit
// (CRIA_WITH_LIBEDIT); builds without it have none.
#pragma once

#include <memory>
#include <string>

#include "platforms/hosted/cli/idle_work.h"
#include "platforms/hosted/cli/input_text.h"

namespace cria::hosted {

// "libedit", or "none".
const char* line_editor_name();

class LineEditor {
 public:
  virtual ~LineEditor() = default;

  // Shows prompt and a space, and reads a line, without its newline, which has any in it that text
  // of edit had. kCleared: Ctrl-C threw away what was typed; kInterrupted: nothing was. Bytes that
  // are not UTF-8 become U+FFFD. Works while no key waits. Needs an InterruptGuard; one at a time.
  virtual LineResult next(const std::string& prompt, const IdleWork& work, std::string* line) = 0;
  // The next line begins as this text, to be changed.
  virtual void edit(const std::string& text) = 0;
  // Adds to what the arrow keys go back to.
  virtual void remember(const std::string& line) = 0;
};

// Null where lines are taken as the terminal gives them: standard input, output or error is no
// terminal, it obeys no escape sequences, no UTF-8 locale is there, or the build has no editor.
std::unique_ptr<LineEditor> make_line_editor();

}  // namespace cria::hosted
