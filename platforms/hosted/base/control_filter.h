// Text for a terminal: what a model or a file says must not move the cursor, change the title or
// answer for the user. Messages have filters of their own, platforms/hosted/base/shown_text.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::hosted {

// Characters that take no room and are part of honest text: joiners, direction marks, byte-order
// marks.
enum class Invisible { kKept, kReplaced };

// Turns control characters (U+0000 to U+001F but newline and tab, U+007F to U+009F), what overrides
// the direction of text or ends a line unseen (U+2028 to U+202E, U+2066 to U+2069), and bytes that
// are not UTF-8 into one question mark each, in text that comes in pieces. kReplaced: also what
// else is invisible (U+200B to U+200F, U+2060 to U+206F, U+FEFF). A character cut by the end of a
// piece waits for the next one. Allocates nothing.
class ControlFilter {
 public:
  explicit ControlFilter(Invisible invisible) : invisible_(invisible) {}

  // Longest output that one byte causes.
  static constexpr size_t kMostBytes = 4;
  // Feeds one byte; writes at most kMostBytes to out and gives their number.
  size_t feed(char byte, char* out);
  // The end: what waited is not a character.
  size_t finish(char* out);

 private:
  size_t start(uint8_t byte, char* out);

  Invisible invisible_;
  char held_[4] = {};
  uint8_t n_held_ = 0;
  uint8_t n_wanted_ = 0;  // bytes of the character held; 0: none
};

}  // namespace cria::hosted
