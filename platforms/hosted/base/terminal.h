// What stderr shows to people: notices, errors, colours.
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

// Whether stderr is a terminal that obeys escape sequences.
bool stderr_has_escapes();

// The same of descriptor, and NO_COLOR is unset or empty.
bool has_colours(int descriptor);

// text in a colour when stderr has colours.
std::string coloured(Colour colour, const std::string& text);

// Writes text to stderr as it is; failures are ignored.
void write_stderr(const std::string& text);

// From here on write_stderr waits for nobody: while nobody reads, up to 256 KiB are kept, and more
// is dropped.
void write_stderr_in_background();
// Lines that were.
uint64_t n_stderr_lines_dropped();
// Last in the program, when its other threads have ended.
void finish_stderr();

// Whether a line that is written to descriptor is taken at once. Also in a signal's handler.
bool has_room(int descriptor);

// One paragraph on stderr; on a terminal without control characters, and broken at words so that no
// line is wider than it.
void print_notice(const std::string& text);

}  // namespace cria::hosted
