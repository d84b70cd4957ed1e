// What stderr shows to people: notices, warnings, progress, colours. Text of the model goes through
// TextStream instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cria::hosted {

enum class Colour { kPrompt, kNotice };

// Whether descriptor is a terminal.
bool is_terminal(int descriptor);

// Columns of the terminal at descriptor; 80 where that is unknown.
size_t terminal_columns(int descriptor);

// text in a colour when stderr is a terminal that has colours and NO_COLOR is unset or empty.
std::string coloured(Colour colour, const std::string& text);

// Writes text to stderr as it is; failures are ignored.
void write_stderr(const std::string& text);

// One paragraph on stderr; on a terminal without control characters, and broken at words so that no
// line is wider than it.
void print_notice(const std::string& text);
// The same, starting with "cria: warning: ".
void print_warning(const std::string& text);

// One line that is redrawn in place, on a terminal only; it never fills the last column, so it
// never wraps. The destructor clears it.
class ProgressLine {
 public:
  explicit ProgressLine(std::string label);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Cheap; redraws at most ten times a second.
  void update(uint64_t done, uint64_t total);

 private:
  std::string label_;
  bool shown_on_terminal_;
  bool drawn_ = false;
  int64_t next_draw_ms_ = 0;
};

// Milliseconds of a clock that only goes forward.
int64_t monotonic_ms();
double monotonic_seconds();

}  // namespace cria::hosted
