#include "converter/regex_scanner.h"

#include <string>
#include <utility>

#include "converter/error.h"
#include "converter/regex_syntax.h"
#include "quant/text/utf8.h"

namespace cria::converter {
namespace {

constexpr uint32_t kFirstNonAscii = 0x80;

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

RegexAtom closed_set(CodePoints set, bool negated) {
  return {std::nullopt, negated ? set.complement() : std::move(set), false};
}

}  // namespace

RegexAtom RegexAtom::character(uint32_t code) {
  return {code, CodePoints({CodePointRange{code, code}}), true};
}

RegexScanner::RegexScanner(std::string_view text) : text_(text) {
  if (text.size() > kMaxRegexBytes) {
    refuse(0, "more than " + std::to_string(kMaxRegexBytes) + " bytes");
  }
}

void RegexScanner::refuse(size_t offset, const std::string& problem) const {
  throw RegexError(offset, problem);
}

void RegexScanner::spend(size_t n_ranges) {
  // A regex of published tokenizers has some twenty properties.
  constexpr size_t kMostRanges = size_t{1} << 19;
  n_spent_ += n_ranges;
  if (n_spent_ > kMostRanges) refuse(offset_, "its classes are too many and too large");
}

bool RegexScanner::take(std::string_view text) {
  if (!starts_with(text)) return false;
  offset_ += text.size();
  return true;
}

std::optional<uint32_t> RegexScanner::take_number() {
  constexpr uint32_t kBase = 10;
  const size_t begin = offset_;
  uint32_t number = 0;
  for (; is_digit(peek()); ++offset_) {
    number = number * kBase + static_cast<uint32_t>(peek() - '0');
    if (number > kMaxRegexRepeat) {
      refuse(begin, "more than " + std::to_string(kMaxRegexRepeat) + " repetitions");
    }
  }
  return offset_ == begin ? std::nullopt : std::optional(number);
}

uint32_t RegexScanner::take_code() {
  if (at_end()) refuse(offset_, "the regex ends too soon");
  const Utf8Char c = decode_utf8(text_.data() + offset_, text_.size() - offset_);
  offset_ += c.n_bytes;
  return c.code;
}

uint32_t RegexScanner::take_hex(size_t least, size_t most) {
  constexpr uint32_t kHexBits = 4;
  constexpr uint32_t kTen = 10;
  const size_t begin = offset_;
  uint32_t code = 0;
  for (; offset_ - begin < most; ++offset_) {
    const char c = peek();
    const char lower = static_cast<char>(c | 0x20);
    if (!is_digit(c) && (lower < 'a' || lower > 'f')) break;
    code =
        code << kHexBits | static_cast<uint32_t>(is_digit(c) ? c - '0' : lower - 'a' + int{kTen});
  }
  if (offset_ - begin < least || code > kLastCodePoint)
    refuse(begin, "this is not the code of a character");
  return code;
}

RegexAtom RegexScanner::take_property(bool negated) {
  const size_t begin = offset_;
  if (!take("{")) refuse(begin, "\\p without braces");
  if (take("^")) negated = !negated;
  const size_t end = text_.find('}', offset_);
  if (end == std::string_view::npos) refuse(begin, "\\p without a closing brace");
  const std::string_view name = text_.substr(offset_, end - offset_);
  auto set = property_code_points(name);
  if (!set) refuse(begin, "\\p{" + shown(std::string(name)) + "} is not supported");
  offset_ = end + 1;
  return {std::nullopt, negated ? set->complement() : *std::move(set), true};
}

RegexAtom RegexScanner::take_escape() {
  constexpr size_t kRangesOfProperty = size_t{1} << 12;
  constexpr size_t kHexPair = 2;
  constexpr size_t kHexFour = 4;
  constexpr size_t kHexMost = 8;
  const size_t begin = offset_;
  (void)take("\\");
  if (at_end()) refuse(begin, "a backslash at the end");
  const char c = peek();
  if (!is_ascii_letter(c) && !is_digit(c)) return RegexAtom::character(take_code());
  ++offset_;
  constexpr std::string_view kProperties = "sSdDwWpP";
  if (kProperties.find(c) != std::string_view::npos) spend(kRangesOfProperty);
  switch (c) {
    case 's':
    case 'S':
      return closed_set(white_space_code_points(), c == 'S');
    case 'd':
    case 'D':
      return closed_set(*property_code_points("Nd"), c == 'D');
    case 'w':
    case 'W': {
      RegexAtom word = closed_set(word_code_points(), c == 'W');
      word.folds = true;
      return word;
    }
    case 'p':
    case 'P':
      return take_property(c == 'P');
    case 't':
      return RegexAtom::character('\t');
    case 'n':
      return RegexAtom::character('\n');
    case 'v':
      return RegexAtom::character('\v');
    case 'f':
      return RegexAtom::character('\f');
    case 'r':
      return RegexAtom::character('\r');
    case 'u':
      return RegexAtom::character(take_hex(kHexFour, kHexFour));
    case 'x': {
      if (take("{")) {
        const uint32_t code = take_hex(1, kHexMost);
        if (!take("}")) refuse(begin, "\\x{ without a closing brace");
        return RegexAtom::character(code);
      }
      const uint32_t code = take_hex(1, kHexPair);
      // There it is a byte of the text, not a character.
      if (code >= kFirstNonAscii) refuse(begin, "\\x of a byte that is not ASCII");
      return RegexAtom::character(code);
    }
    default:
      refuse(begin, std::string("\\") + c + " is not supported");
  }
}

// One member of a class, or one end of a range of characters.
RegexAtom RegexScanner::take_class_member(size_t depth) {
  if (starts_with("[:")) refuse(offset_, "[: of a named class is not supported");
  if (peek() == '[') return take_class(depth + 1);
  if (peek() == '\\') return take_escape();
  return RegexAtom::character(take_code());
}

// What stands before the bracket or an && of the class that begins at begin.
RegexAtom RegexScanner::take_class_list(size_t depth, size_t begin) {
  RegexAtom all = {std::nullopt, {}, false};
  std::vector<CodePointRange> ranges;
  bool is_empty = true;
  while (peek() != ']' && !starts_with("&&")) {
    if (at_end()) refuse(begin, "a class without a closing bracket");
    const size_t place = offset_;
    RegexAtom member = take_class_member(depth);
    is_empty = false;
    const bool is_range = peek() == '-' && !starts_with("-]") && !starts_with("-&&");
    if (is_range && !member.code) refuse(place, "a range that does not begin with a character");
    if (is_range) {
      (void)take("-");
      const RegexAtom last = take_class_member(depth);
      if (!last.code || *last.code < *member.code)
        refuse(place, "a range whose end is not a later character");
      member = {std::nullopt, CodePoints({CodePointRange{*member.code, *last.code}}), true};
    }
    all.folds = all.folds || member.folds;
    spend(member.set.ranges().size());
    ranges.insert(ranges.end(), member.set.ranges().begin(), member.set.ranges().end());
  }
  if (is_empty) refuse(begin, "a class with an empty part");
  all.set = CodePoints(std::move(ranges));
  return all;
}

RegexAtom RegexScanner::take_class(size_t depth) {
  const size_t begin = offset_;
  if (depth > kMaxRegexDepth) refuse(begin, "classes are nested too deep");
  (void)take("[");
  const bool negated = take("^");
  RegexAtom all = take_class_list(depth, begin);
  while (take("&&")) {
    const RegexAtom more = take_class_list(depth, begin);
    spend(all.set.ranges().size() + more.set.ranges().size());
    all.set = intersect(all.set, more.set);
    all.folds = all.folds || more.folds;
  }
  if (!take("]")) refuse(begin, "a class without a closing bracket");
  if (negated) all.set = all.set.complement();
  return all;
}

}  // namespace cria::converter
