// A regex as a deterministic automaton over classes of characters that finds what backtracking
// finds: of all matches at a place the one that the alternatives and repetitions prefer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "converter/regex_syntax.h"

namespace cria::converter {

struct WordTransition {
  uint32_t next;  // state
  bool accepts;   // the last match known so far ends before this character
  bool operator==(const WordTransition&) const = default;
};

// The fewest states that do it. State 0 is dead: no match will follow. A match starts in state 1.
struct WordAutomaton {
  size_t n_states = 0;
  size_t n_columns = 0;  // a class each; the last is the end of the text
  std::vector<WordTransition> transitions;

  [[nodiscard]] const WordTransition& at(size_t state, size_t column) const {
    return transitions[state * n_columns + column];
  }
};

// The classes of a set; one row of CharClasses::members.
using SetMembers = std::vector<bool>;

// members are those of regex.sets. Throws RegexError for a regex that matches nothing or the empty
// text, and for one that needs too many states or too long to build.
[[nodiscard]] WordAutomaton build_automaton(const Regex& regex, std::span<const SetMembers> members,
                                            size_t n_classes);

}  // namespace cria::converter
