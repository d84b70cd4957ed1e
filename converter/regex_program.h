// A regex as the steps of a nondeterministic automaton, in the order in which backtracking tries
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "converter/regex_syntax.h"

namespace cria::converter {

enum class RegexStep : uint32_t {
  kMatch,  // the match ends here
  kTake,   // takes a character of the set, then goes to next
  kAhead,  // goes to next if the character that follows is of the set, or is not where negated says
           // so; at the end of the text if takes_end says so
  kTry,    // goes to next, and to other where that leads nowhere
};

struct RegexInstruction {
  RegexStep step;
  uint32_t next = 0;
  uint32_t other = 0;
  uint32_t set = 0;
  bool negated = false;
  bool takes_end = false;
};

struct RegexProgram {
  std::vector<RegexInstruction> instructions;
  uint32_t start = 0;
};

// Throws RegexError when the program is too long, or repeats what may be empty without end.
[[nodiscard]] RegexProgram compile_regex(const Regex& regex);

}  // namespace cria::converter
