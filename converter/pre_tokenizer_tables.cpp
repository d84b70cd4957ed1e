#include "converter/pre_tokenizer_tables.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "converter/automaton_rules.h"
#include "converter/char_classes.h"
#include "converter/error.h"
#include "converter/regex_syntax.h"
#include "converter/word_automaton.h"
#include "quant/text/pre_tokenizer_format.h"

namespace cria::converter {
namespace {

using format::PreTokenizerHeader;
using format::StageEntry;

[[noreturn]] void refuse(const std::string& where, std::string_view regex,
                         const std::string& problem) {
  throw ProgramError(ExitCode::kInvalidInput, where + ": the pre_tokenizer's regex '" +
                                                  shown(std::string(regex)) +
                                                  "' is not supported: " + problem);
}

// What the regexes of all stages become.
struct Stages {
  std::vector<SplitRule> rules;
  std::vector<WordAutomaton> automata;
  CharClasses classes;
};

Stages build_stages(std::span<const SplitRule> rules, const std::string& where) {
  Stages stages = {{rules.begin(), rules.end()}, {}, {}};
  if (rules.size() > format::kMaxSplitStages) {
    throw ProgramError(ExitCode::kInvalidInput, where + ": pre_tokenizer has more than " +
                                                    std::to_string(format::kMaxSplitStages) +
                                                    " stages");
  }
  std::vector<Regex> regexes;
  std::vector<CodePoints> sets;
  for (const SplitRule& rule : rules) {
    try {
      regexes.push_back(parse_regex(rule.regex));
    } catch (const RegexError& error) {
      refuse(where, rule.regex, error.what());
    }
    sets.insert(sets.end(), regexes.back().sets.begin(), regexes.back().sets.end());
  }
  stages.classes = classify(sets);
  // Before automata, which are as large, are built.
  constexpr size_t kMostClasses = 1 << 10;
  if (stages.classes.n_classes > kMostClasses) {
    throw ProgramError(ExitCode::kInvalidInput,
                       where + ": the pre_tokenizer's regexes have more than " +
                           std::to_string(kMostClasses) + " different kinds of characters");
  }
  size_t first_set = 0;
  for (size_t i = 0; i < rules.size(); ++i) {
    try {
      const auto members =
          std::span(stages.classes.members).subspan(first_set, regexes[i].sets.size());
      stages.automata.push_back(build_automaton(regexes[i], members, stages.classes.n_classes));
    } catch (const RegexError& error) {
      refuse(where, rules[i].regex, error.what());
    }
    if (!is_linear(stages.automata.back())) {
      refuse(where, rules[i].regex, "reading a text with it could take more than linear time");
    }
    first_set += regexes[i].sets.size();
  }
  return stages;
}

// Classes that no automaton tells apart become one. Returns the new class of each.
std::vector<uint32_t> merge_classes(Stages* stages) {
  const size_t n_classes = stages->classes.n_classes;
  std::map<std::vector<uint32_t>, uint32_t> known;
  std::vector<uint32_t> merged(n_classes);
  std::vector<size_t> kept;
  for (size_t column = 0; column < n_classes; ++column) {
    std::vector<uint32_t> shape;
    for (const WordAutomaton& automaton : stages->automata) {
      for (size_t state = 0; state < automaton.n_states; ++state) {
        const WordTransition& transition = automaton.at(state, column);
        shape.push_back(2 * transition.next + (transition.accepts ? 1 : 0));
      }
    }
    const auto [entry, is_new] = known.emplace(std::move(shape), known.size());
    if (is_new) kept.push_back(column);
    merged[column] = entry->second;
  }
  kept.push_back(n_classes);  // the end of the text
  for (WordAutomaton& automaton : stages->automata) {
    std::vector<WordTransition> transitions;
    for (size_t state = 0; state < automaton.n_states; ++state) {
      for (const size_t column : kept) transitions.push_back(automaton.at(state, column));
    }
    automaton.transitions = std::move(transitions);
    automaton.n_columns = kept.size();
  }
  return merged;
}

class TableWriter {
 public:
  template <typename T>
  void put(const T& value) {
    const size_t offset = bytes_.size();
    bytes_.resize(offset + sizeof(T));
    std::memcpy(bytes_.data() + offset, &value, sizeof(T));
  }
  [[nodiscard]] std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace

bool covers_all_text(const SplitRule& rule, const std::string& where) {
  return matches_everywhere(build_stages({&rule, 1}, where).automata.front());
}

std::vector<uint8_t> build_pre_tokenizer_tables(std::span<const SplitRule> rules,
                                                const std::string& where) {
  Stages stages = build_stages(rules, where);
  const std::vector<uint32_t> merged = merge_classes(&stages);
  PreTokenizerHeader header = {};
  header.n_stages = static_cast<uint32_t>(rules.size());
  header.n_classes = *std::max_element(merged.begin(), merged.end()) + 1;
  std::vector<uint32_t> runs;
  for (const ClassRun& run : stages.classes.runs) {
    const uint32_t char_class = merged[run.char_class];
    for (size_t code = run.first; code < format::kAsciiCodes; ++code) {
      header.ascii_classes[code] = static_cast<uint8_t>(char_class);
    }
    const uint32_t first = std::max(run.first, uint32_t{format::kAsciiCodes});
    // The run that spans the border starts there.
    if (!runs.empty() && runs.back() >> format::kRunClassBits == first) runs.pop_back();
    if (!runs.empty() && (runs.back() & format::kRunClassMask) == char_class) continue;
    runs.push_back(first << format::kRunClassBits | char_class);
  }
  header.n_runs = static_cast<uint32_t>(runs.size());
  size_t n_transitions = 0;
  for (const WordAutomaton& automaton : stages.automata) {
    n_transitions += automaton.transitions.size();
  }
  if (header.n_classes > format::kMaxCharClasses || runs.size() > format::kMaxClassRuns ||
      n_transitions > format::kMaxTransitions) {
    throw ProgramError(ExitCode::kInvalidInput,
                       where + ": the pre_tokenizer's regexes need too large tables");
  }
  header.n_transitions = static_cast<uint32_t>(n_transitions);
  TableWriter writer;
  writer.put(header);
  for (const uint32_t run : runs) writer.put(run);
  for (size_t i = 0; i < rules.size(); ++i) {
    writer.put(StageEntry{static_cast<uint32_t>(stages.automata[i].n_states),
                          static_cast<uint16_t>(rules[i].behavior),
                          static_cast<uint16_t>(rules[i].inverted ? 1 : 0)});
  }
  for (const WordAutomaton& automaton : stages.automata) {
    for (const WordTransition& transition : automaton.transitions) {
      writer.put(static_cast<uint16_t>(transition.next << 1 | (transition.accepts ? 1 : 0)));
    }
  }
  return writer.take();
}

}  // namespace cria::converter
