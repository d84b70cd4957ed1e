// What a pre-tokenizer's automaton must keep to besides finding the right words.
#pragma once

#include "converter/word_automaton.h"

namespace cria::converter {

// Whether a match starts at every character of every text, so that nothing is between matches.
[[nodiscard]] bool matches_everywhere(const WordAutomaton& automaton);

// Whether cutting a text with the runtime's walk (runtime/text/pre_tokenizer.h) is linear: no
// character is read more than a constant number of times (format::kMaxReadsPerByte).
//
// The tail of a walk is what it reads after the last match it found, in the hope of another one;
// the next walk reads it again. Tails are short unless the automaton can stay in a state of a tail.
// Each such state that stays on a class of characters, with no way back to it once left, must be
// one of
//   - absorbed: on a run of those classes a walk finds a match at every step from the second, or
//     one that ends with the run, so that at most two walks start in a run;
//   - rejoined: from its start on, a walk is in this very state, where the runtime remembers that
//     no match follows; and no other such state comes after it.
[[nodiscard]] bool is_linear(const WordAutomaton& automaton);

}  // namespace cria::converter
