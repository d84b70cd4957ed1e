#include "converter/regex_syntax.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "converter/regex_scanner.h"

namespace cria::converter {
namespace {

constexpr uint32_t kLastAscii = 0x7f;
constexpr uint32_t kCaseBit = 0x20;

bool is_letter(uint32_t code) {
  return (code | kCaseBit) >= 'a' && (code | kCaseBit) <= 'z' && code <= kLastAscii;
}

// ASCII characters with the letters' other case. Two characters elsewhere fold to ASCII letters.
CodePoints with_other_case(const CodePoints& set) {
  constexpr uint32_t kLongS = 0x17f;
  constexpr uint32_t kKelvinSign = 0x212a;
  std::vector<CodePointRange> ranges(set.ranges().begin(), set.ranges().end());
  for (uint32_t code = 'A'; code <= 'Z'; ++code) {
    if (!set.has(code) && !set.has(code | kCaseBit)) continue;
    ranges.push_back({code, code});
    ranges.push_back({code | kCaseBit, code | kCaseBit});
    if (code == 'S') ranges.push_back({kLongS, kLongS});
    if (code == 'K') ranges.push_back({kKelvinSign, kKelvinSign});
  }
  return CodePoints(std::move(ranges));
}

// Two letters that are also one character, in some case: of "ss" U+00DF is another form.
bool may_be_one_character(uint32_t first, uint32_t second) {
  constexpr std::string_view kPairs[] = {"ss", "st", "ff", "fi", "fl"};
  return std::any_of(std::begin(kPairs), std::end(kPairs), [=](std::string_view pair) {
    return (first | kCaseBit) == static_cast<uint32_t>(pair[0]) &&
           (second | kCaseBit) == static_cast<uint32_t>(pair[1]);
  });
}

enum class Ahead { kIs, kIsNot };

class RegexParser {
 public:
  explicit RegexParser(std::string_view text) : scanner_(text) {}

  Regex parse() {
    regex_.root = take_alternatives(0, false);
    if (!scanner_.at_end()) scanner_.refuse(scanner_.offset(), "a parenthesis that opens nothing");
    return std::move(regex_);
  }

 private:
  uint32_t add(RegexNode node) {
    constexpr size_t kMaxNodes = 1 << 12;
    if (regex_.nodes.size() == kMaxNodes) scanner_.refuse(node.offset, "the regex is too large");
    regex_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(regex_.nodes.size() - 1);
  }

  uint32_t index_of(const CodePoints& set, size_t offset) {
    const auto found = std::find(regex_.sets.begin(), regex_.sets.end(), set);
    if (found != regex_.sets.end()) return static_cast<uint32_t>(found - regex_.sets.begin());
    if (regex_.sets.size() == kMaxRegexSets) scanner_.refuse(offset, "too many different classes");
    regex_.sets.push_back(set);
    return static_cast<uint32_t>(regex_.sets.size() - 1);
  }

  uint32_t add_set(const CodePoints& set, size_t offset) {
    RegexNode node = {RegexKind::kSet};
    node.offset = offset;
    node.set = index_of(set, offset);
    return add(std::move(node));
  }

  uint32_t add_ahead(const CodePoints& set, bool takes_end, size_t offset) {
    RegexNode node = {RegexKind::kAhead};
    node.offset = offset;
    node.set = index_of(set, offset);
    node.takes_end = takes_end;
    return add(std::move(node));
  }

  // Up to a closing parenthesis or the end.
  uint32_t take_alternatives(size_t depth, bool ignores_case) {
    if (depth > kMaxRegexDepth) scanner_.refuse(scanner_.offset(), "groups are nested too deep");
    RegexNode node = {RegexKind::kAlternate};
    node.offset = scanner_.offset();
    // Further in, the library takes (?i) to enclose the alternatives that follow.
    while (scanner_.take("(?i)")) ignores_case = true;
    do {
      node.parts.push_back(take_sequence(depth, ignores_case));
    } while (scanner_.take("|"));
    return add(std::move(node));
  }

  uint32_t take_sequence(size_t depth, bool ignores_case) {
    RegexNode node = {RegexKind::kConcat};
    node.offset = scanner_.offset();
    std::optional<uint32_t> letter_before;
    while (!scanner_.at_end() && scanner_.peek() != '|' && scanner_.peek() != ')') {
      const size_t begin = scanner_.offset();
      std::optional<uint32_t> letter;
      const uint32_t part = take_part(depth, ignores_case, &letter);
      if (letter_before && letter && may_be_one_character(*letter_before, *letter)) {
        scanner_.refuse(begin, "letters under (?i) that may be one character (a ligature)");
      }
      letter_before = letter;
      node.parts.push_back(take_repeats(part));
    }
    return add(std::move(node));
  }

  uint32_t take_part(size_t depth, bool ignores_case, std::optional<uint32_t>* letter) {
    const size_t begin = scanner_.offset();
    switch (scanner_.peek()) {
      case '(':
        return take_group(depth, ignores_case);
      case '$':
        (void)scanner_.take("$");
        return add_ahead(CodePoints({CodePointRange{'\n', '\n'}}), true, begin);
      case '^':
        scanner_.refuse(begin, "^ is not supported");
      case '?':
      case '*':
      case '+':
        scanner_.refuse(begin, "a repetition of nothing");
      case '{':
      case ']':
        scanner_.refuse(begin, "a bracket or brace that closes or repeats nothing");
      default:
        break;
    }
    RegexAtom atom;
    if (scanner_.take(".")) {
      atom = {std::nullopt, CodePoints({CodePointRange{'\n', '\n'}}).complement(), false};
    } else if (scanner_.peek() == '[') {
      atom = scanner_.take_class(0);
    } else if (scanner_.peek() == '\\') {
      atom = scanner_.take_escape();
    } else {
      atom = RegexAtom::character(scanner_.take_code());
    }
    if (ignores_case && atom.code && is_letter(*atom.code)) *letter = *atom.code;
    return add_set(folded(atom, ignores_case, begin), begin);
  }

  CodePoints folded(const RegexAtom& atom, bool ignores_case, size_t offset) {
    if (!ignores_case || !atom.folds) return atom.set;
    if (!atom.set.ranges().empty() && atom.set.ranges().back().last > kLastAscii) {
      scanner_.refuse(offset, "what may be a letter that is not ASCII under (?i)");
    }
    return with_other_case(atom.set);
  }

  uint32_t take_group(size_t depth, bool ignores_case) {
    const size_t begin = scanner_.offset();
    if (scanner_.take("(?=")) return take_ahead(begin, Ahead::kIs, ignores_case);
    if (scanner_.take("(?!")) return take_ahead(begin, Ahead::kIsNot, ignores_case);
    if (scanner_.take("(?i:")) {
      ignores_case = true;
    } else if (scanner_.take("(?-i:")) {
      ignores_case = false;
    } else if (scanner_.starts_with("(?i)")) {
      // At the start of a group take_alternatives has it.
      scanner_.refuse(begin, "(?i) in the middle of a group");
    } else if (!scanner_.take("(?:")) {
      if (scanner_.starts_with("(?") || scanner_.starts_with("(*")) {
        scanner_.refuse(begin, "this kind of group is not supported");
      }
      (void)scanner_.take("(");
    }
    const uint32_t group = take_alternatives(depth + 1, ignores_case);
    if (!scanner_.take(")")) scanner_.refuse(begin, "a group without a closing parenthesis");
    return group;
  }

  // After (?= or (?!, which begin there.
  uint32_t take_ahead(size_t begin, Ahead wanted, bool ignores_case) {
    const bool negated = wanted == Ahead::kIsNot;
    const std::string problem = "looking ahead at more than one character is not supported";
    if (scanner_.peek() == '(' || scanner_.peek() == '$') scanner_.refuse(begin, problem);
    std::optional<uint32_t> letter;
    const uint32_t part = take_part(0, ignores_case, &letter);
    if (!scanner_.take(")")) scanner_.refuse(begin, problem);
    const CodePoints set = regex_.sets[regex_.nodes[part].set];
    return add_ahead(negated ? set.complement() : set, negated, begin);
  }

  uint32_t take_repeats(uint32_t part) {
    const size_t begin = scanner_.offset();
    RegexNode node = {RegexKind::kRepeat};
    node.offset = begin;
    node.parts = {part};
    bool is_counted = false;
    if (scanner_.take("?")) {
      node.most = 1;
    } else if (scanner_.take("*")) {
      node.most = kRepeatForever;
    } else if (scanner_.take("+")) {
      node.least = 1;
      node.most = kRepeatForever;
    } else if (scanner_.take("{")) {
      is_counted = true;
      take_counts(begin, &node);
    } else {
      return part;
    }
    if (scanner_.peek() == '?') {
      // There x{n}? is (?:x{n})?.
      if (is_counted && node.least == node.most) scanner_.refuse(begin, "{n}? is not supported");
      (void)scanner_.take("?");
      node.mode = RepeatMode::kLazy;
    } else if (!is_counted && scanner_.take("+")) {
      if (regex_.nodes[part].kind != RegexKind::kSet) {
        scanner_.refuse(begin, "a possessive repetition of more than one character");
      }
      node.mode = RepeatMode::kPossessive;
    }
    if (regex_.nodes[part].kind == RegexKind::kAhead) {
      scanner_.refuse(begin, "a repetition of a part without characters");
    }
    const uint32_t repeat = add(std::move(node));
    // There x{1,3}+ repeats the repetition; another second one is a mistake.
    if (is_counted && (scanner_.peek() == '+' || scanner_.peek() == '*')) {
      RegexNode outer = {RegexKind::kRepeat};
      outer.offset = scanner_.offset();
      outer.parts = {repeat};
      outer.least = scanner_.peek() == '+' ? 1 : 0;
      outer.most = kRepeatForever;
      (void)scanner_.take_code();
      refuse_repeat();
      return add(std::move(outer));
    }
    refuse_repeat();
    return repeat;
  }

  void refuse_repeat() {
    constexpr std::string_view kRepeats = "?*+{";
    if (!scanner_.at_end() && kRepeats.find(scanner_.peek()) != std::string_view::npos) {
      scanner_.refuse(scanner_.offset(), "a repetition of a repetition");
    }
  }

  void take_counts(size_t begin, RegexNode* node) {
    const auto least = scanner_.take_number();
    node->least = least.value_or(0);
    node->most = node->least;
    const bool has_comma = scanner_.take(",");
    if (has_comma) {
      const auto most = scanner_.take_number();
      if (!least && !most) scanner_.refuse(begin, "{,} has no number");
      node->most = most.value_or(kRepeatForever);
    }
    if ((!least && !has_comma) || !scanner_.take("}")) scanner_.refuse(begin, "{ without a number");
    if (node->most < node->least) scanner_.refuse(begin, "a repetition whose limits are reversed");
  }

  RegexScanner scanner_;
  Regex regex_;
};

}  // namespace

Regex parse_regex(std::string_view text) { return RegexParser(text).parse(); }

}  // namespace cria::converter
