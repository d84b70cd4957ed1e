// Text for a terminal: what a model or a file says must not move the cursor, change the title or
// answer for the user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cria::hosted {

// Turns control characters (U+0000 to U+001F but newline and tab, U+007F to U+009F), what overrides
// the direction of text or ends a line unseen (U+2028 to U+202E, U+2066 to U+2069), and bytes that
// are not UTF-8 into one question mark each, in text that comes in pieces. A character cut by the
// end of a piece waits for the next one. Allocates nothing.
class ControlFilter {
 public:
  // Longest output that one byte causes.
  static constexpr size_t kMostBytes = 4;
  // Feeds one byte; writes at most kMostBytes to out and gives their number.
  size_t feed(char byte, char* out);
  // The end: what waited is not a character.
  size_t finish(char* out);

 private:
  size_t start(uint8_t byte, char* out);

  char held_[4] = {};
  uint8_t n_held_ = 0;
  uint8_t n_wanted_ = 0;  // bytes of the character held; 0: none
};

enum class Lines { kKept, kJoined };

// A whole text through the filter; kJoined: newlines and tabs become question marks too.
std::string without_controls(std::string_view text, Lines lines);

}  // namespace cria::hosted
