#include "converter/automaton_rules.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "quant/text/pre_tokenizer_format.h"

namespace cria::converter {
namespace {

using format::kDeadState;
using format::kStartState;

using States = std::vector<uint32_t>;
using Columns = std::vector<size_t>;

// The states in which a walk may find nothing more; in the others it finds a match, whatever
// follows. Each transition is followed back once.
std::vector<bool> states_that_fail(const WordAutomaton& automaton) {
  std::vector<States> before(automaton.n_states);
  for (uint32_t state = 0; state < automaton.n_states; ++state) {
    for (size_t column = 0; column < automaton.n_columns; ++column) {
      const WordTransition& transition = automaton.at(state, column);
      if (!transition.accepts) before[transition.next].push_back(state);
    }
  }
  std::vector<bool> fails(automaton.n_states, false);
  fails[kDeadState] = true;
  States open = {kDeadState};
  while (!open.empty()) {
    const States sources = std::move(before[open.back()]);
    open.pop_back();
    for (const uint32_t state : sources) {
      if (!fails[state]) open.push_back(state);
      fails[state] = true;
    }
  }
  return fails;
}

// The states of tails, and how walks go on in them.
class Tails {
 public:
  explicit Tails(const WordAutomaton& automaton)
      : automaton_(automaton),
        fails_(states_that_fail(automaton)),
        is_tail_(automaton.n_states, false) {
    add(kStartState);
    // What was found ends a tail, and the next begins.
    for (const WordTransition& transition : automaton.transitions) {
      if (transition.accepts) add(transition.next);
    }
    for (size_t i = 0; i < states_.size(); ++i) {
      for (const uint32_t next : successors(states_[i])) add(next);
    }
  }

  [[nodiscard]] const States& states() const { return states_; }

  // Where the state may go in the same tail, without itself.
  [[nodiscard]] States successors(uint32_t state) const {
    States next;
    for (size_t column = 0; column < automaton_.n_columns; ++column) {
      const WordTransition& transition = automaton_.at(state, column);
      if (!transition.accepts && is_in_tails(transition.next) && transition.next != state) {
        next.push_back(transition.next);
      }
    }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    return next;
  }

  // The classes on which the state stays in the tail.
  [[nodiscard]] Columns staying(uint32_t state) const {
    Columns columns;
    for (size_t column = 0; column < automaton_.n_columns; ++column) {
      const WordTransition& transition = automaton_.at(state, column);
      if (!transition.accepts && transition.next == state) columns.push_back(column);
    }
    return columns;
  }

  // The states of tails, each before those it leads to; fewer when some lead back to themselves.
  [[nodiscard]] States in_order() const {
    std::vector<size_t> n_before(automaton_.n_states, 0);
    for (const uint32_t state : states_) {
      for (const uint32_t next : successors(state)) ++n_before[next];
    }
    States order;
    for (const uint32_t state : states_) {
      if (n_before[state] == 0) order.push_back(state);
    }
    for (size_t i = 0; i < order.size(); ++i) {
      for (const uint32_t next : successors(order[i])) {
        if (--n_before[next] == 0) order.push_back(next);
      }
    }
    return order;
  }

 private:
  [[nodiscard]] bool is_in_tails(uint32_t state) const {
    return state != kDeadState && fails_[state];
  }
  void add(uint32_t state) {
    if (!is_in_tails(state) || is_tail_[state]) return;
    is_tail_[state] = true;
    states_.push_back(state);
  }

  const WordAutomaton& automaton_;
  std::vector<bool> fails_;
  std::vector<bool> is_tail_;
  States states_;
};

// The states in which a walk may be that has read nothing but some of these classes. Takes its
// transitions from those left, and stops when there are none.
States reached(const WordAutomaton& automaton, const Columns& columns, size_t* left) {
  std::vector<bool> seen(automaton.n_states, false);
  States states;
  const auto visit = [&](uint32_t state) {
    *left -= std::min(*left, automaton.n_columns);
    for (const size_t column : columns) {
      const uint32_t next = automaton.at(state, column).next;
      if (!seen[next]) states.push_back(next);
      seen[next] = true;
    }
  };
  visit(kStartState);
  for (size_t i = 0; i < states.size() && *left > 0; ++i) visit(states[i]);
  return states;
}

bool is_absorbed(const WordAutomaton& automaton, const Columns& staying, size_t* left) {
  std::vector<bool> stays(automaton.n_columns, false);
  for (const size_t column : staying) stays[column] = true;
  bool at_each_step = true;
  bool at_the_end = true;
  for (const uint32_t state : reached(automaton, staying, left)) {
    if (state == kDeadState) return false;
    for (size_t column = 0; column < automaton.n_columns; ++column) {
      if (!automaton.at(state, column).accepts) (stays[column] ? at_each_step : at_the_end) = false;
    }
  }
  return *left > 0 && (at_each_step || at_the_end);
}

bool is_rejoined(const WordAutomaton& automaton, uint32_t state, const Columns& staying) {
  return std::all_of(staying.begin(), staying.end(), [&](size_t column) {
    const WordTransition& transition = automaton.at(kStartState, column);
    return transition.next == state && !transition.accepts;
  });
}

}  // namespace

bool matches_everywhere(const WordAutomaton& automaton) {
  const std::vector<bool> fails = states_that_fail(automaton);
  // No walk starts at the end of a text.
  for (size_t column = 0; column + 1 < automaton.n_columns; ++column) {
    if (fails[automaton.at(kStartState, column).next]) return false;
  }
  return true;
}

bool is_linear(const WordAutomaton& automaton) {
  // Characters of a tail other than those on which it stays, and the walks that start in its runs.
  constexpr size_t kMostStarts = 32;
  // Transitions looked at for all runs together; published tokenizers take some thousand.
  size_t left = size_t{1} << 23;
  const Tails tails(automaton);
  const States order = tails.in_order();
  if (order.size() != tails.states().size()) return false;
  std::vector<size_t> starts(automaton.n_states, 0);
  std::vector<bool> leads_to_stay(automaton.n_states, false);
  for (size_t i = order.size(); i-- > 0;) {
    const uint32_t state = order[i];
    for (const uint32_t next : tails.successors(state)) {
      starts[state] = std::max(starts[state], starts[next] + 1);
      if (leads_to_stay[next]) leads_to_stay[state] = true;
    }
    const Columns staying = tails.staying(state);
    if (!staying.empty() && !is_absorbed(automaton, staying, &left)) {
      if (leads_to_stay[state] || !is_rejoined(automaton, state, staying)) return false;
    }
    if (!staying.empty()) {
      leads_to_stay[state] = true;
      starts[state] += 2;
    }
    if (starts[state] > kMostStarts) return false;
  }
  return true;
}

}  // namespace cria::converter
