#include "converter/word_automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "converter/regex_program.h"
#include "quant/text/pre_tokenizer_format.h"

namespace cria::converter {
namespace {

using format::kDeadState;
using format::kStartState;

// Steps of building: regexes of published tokenizers need some ten thousand.
constexpr size_t kMaxWork = size_t{1} << 18;

// The instructions at which the automaton may be, the preferred first.
using Places = std::vector<uint32_t>;

class Builder {
 public:
  Builder(const Regex& regex, std::span<const SetMembers> members, size_t n_classes)
      : program_(compile_regex(regex)),
        members_(members),
        end_column_(n_classes),
        seen_(program_.instructions.size(), 0) {}

  WordAutomaton build() {
    (void)state_of({});
    (void)state_of({program_.start});
    WordAutomaton result;
    result.n_columns = end_column_ + 1;
    for (size_t state = 0; state < states_.size(); ++state) {
      for (size_t column = 0; column <= end_column_; ++column) {
        result.transitions.push_back(step(*states_[state], column));
      }
    }
    result.n_states = states_.size();
    return result;
  }

  void spend(size_t steps) {
    work_ += steps;
    if (work_ > kMaxWork) throw RegexError(0, "the regex takes too long to turn into a table");
  }

 private:
  uint32_t state_of(Places places) {
    const auto [entry, is_new] =
        known_.emplace(std::move(places), static_cast<uint32_t>(states_.size()));
    if (is_new) states_.push_back(&entry->first);
    if (states_.size() > format::kMaxSplitStates) {
      throw RegexError(
          0, "the regex needs more than " + std::to_string(format::kMaxSplitStates) + " states");
    }
    return entry->second;
  }

  // Whether a character of this class, or the end of the text, is what the instruction wants.
  [[nodiscard]] bool agrees(const RegexInstruction& instruction, size_t column) const {
    if (column == end_column_) return instruction.takes_end;
    return members_[instruction.set][column] != instruction.negated;
  }

  // Follows all that takes no character, the preferred first. A match cuts off what is after it.
  WordTransition step(const Places& places, size_t column) {
    constexpr size_t kCopiedAtOnce = 16;
    spend(places.size() / kCopiedAtOnce);
    Places next;
    Places open(places.rbegin(), places.rend());
    ++stamp_;
    bool accepts = false;
    while (!open.empty() && !accepts) {
      const uint32_t place = open.back();
      open.pop_back();
      spend(1);
      if (seen_[place] == stamp_) continue;
      seen_[place] = stamp_;
      const RegexInstruction& instruction = program_.instructions[place];
      switch (instruction.step) {
        case RegexStep::kMatch:
          accepts = true;
          break;
        case RegexStep::kTake:
          if (column != end_column_ && agrees(instruction, column)) {
            next.push_back(instruction.next);
          }
          break;
        case RegexStep::kAhead:
          if (agrees(instruction, column)) open.push_back(instruction.next);
          break;
        case RegexStep::kTry:
          open.push_back(instruction.other);
          open.push_back(instruction.next);
          break;
      }
    }
    drop_repeated(&next);
    spend(next.size());
    return {state_of(std::move(next)), accepts};
  }

  // Of two ways to one place the later is never taken.
  void drop_repeated(Places* places) {
    ++stamp_;
    std::erase_if(*places, [this](uint32_t place) {
      const bool is_there = seen_[place] == stamp_;
      seen_[place] = stamp_;
      return is_there;
    });
  }

  RegexProgram program_;
  std::span<const SetMembers> members_;
  size_t end_column_;
  std::map<Places, uint32_t> known_;
  std::vector<const Places*> states_;
  std::vector<uint64_t> seen_;
  uint64_t stamp_ = 0;
  size_t work_ = 0;
};

// States that no text tells apart become one; each gets its group.
std::vector<uint32_t> group_states(const WordAutomaton& automaton, Builder* builder) {
  std::vector<uint32_t> groups(automaton.n_states, 0);
  for (size_t n_groups = 1;;) {
    std::map<std::vector<uint32_t>, uint32_t> known;
    std::vector<uint32_t> refined(automaton.n_states);
    for (size_t state = 0; state < automaton.n_states; ++state) {
      builder->spend(automaton.n_columns);
      std::vector<uint32_t> shape = {groups[state]};
      for (size_t column = 0; column < automaton.n_columns; ++column) {
        const WordTransition& transition = automaton.at(state, column);
        shape.push_back(2 * groups[transition.next] + (transition.accepts ? 1 : 0));
      }
      refined[state] = known.emplace(std::move(shape), known.size()).first->second;
    }
    groups = std::move(refined);
    if (known.size() == n_groups) return groups;
    n_groups = known.size();
  }
}

WordAutomaton minimized(const WordAutomaton& automaton, Builder* builder) {
  std::vector<uint32_t> groups = group_states(automaton, builder);
  if (groups[kDeadState] == groups[kStartState]) throw RegexError(0, "the regex matches nothing");
  // Groups are numbered by their first states: the dead one is 0 and the start 1.
  WordAutomaton result;
  result.n_columns = automaton.n_columns;
  for (size_t state = 0; state < automaton.n_states; ++state) {
    if (groups[state] != result.n_states) continue;
    ++result.n_states;
    for (size_t column = 0; column < automaton.n_columns; ++column) {
      WordTransition transition = automaton.at(state, column);
      transition.next = groups[transition.next];
      result.transitions.push_back(transition);
    }
  }
  return result;
}

}  // namespace

WordAutomaton build_automaton(const Regex& regex, std::span<const SetMembers> members,
                              size_t n_classes) {
  Builder builder(regex, members, n_classes);
  const WordAutomaton result = minimized(builder.build(), &builder);
  for (size_t column = 0; column < result.n_columns; ++column) {
    if (result.at(kStartState, column).accepts) {
      throw RegexError(0, "the regex matches the empty text");
    }
  }
  return result;
}

}  // namespace cria::converter
