// The characters, escapes and classes of a regex, one at a time (converter/regex_syntax.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "converter/code_points.h"

namespace cria::converter {

// What one escape or character stands for: a single character where code is set, else a set.
struct RegexAtom {
  std::optional<uint32_t> code;
  CodePoints set;
  bool folds = true;  // the set holds, or may hold, letters that have another case

  static RegexAtom character(uint32_t code);
};

class RegexScanner {
 public:
  // Throws RegexError for text that is too long. text outlives the scanner.
  explicit RegexScanner(std::string_view text);

  [[nodiscard]] size_t offset() const { return offset_; }
  [[nodiscard]] bool at_end() const { return offset_ == text_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[offset_]; }
  [[nodiscard]] bool starts_with(std::string_view text) const {
    return text_.substr(offset_).starts_with(text);
  }
  // Whether the text goes on with this, which is then passed.
  bool take(std::string_view text);
  // A number, if one is there. Throws RegexError for one above kMaxRegexRepeat.
  std::optional<uint32_t> take_number();
  // The next character, whatever it is.
  uint32_t take_code();
  // What a backslash, which is next, and its escape stand for.
  RegexAtom take_escape();
  // The class whose bracket is next.
  RegexAtom take_class(size_t depth);

  [[noreturn]] void refuse(size_t offset, const std::string& problem) const;

 private:
  // Counts ranges of sets, so that no regex makes sets of sets for long.
  void spend(size_t n_ranges);
  RegexAtom take_property(bool negated);
  uint32_t take_hex(size_t least, size_t most);
  RegexAtom take_class_member(size_t depth);
  RegexAtom take_class_list(size_t depth, size_t begin);

  std::string_view text_;
  size_t offset_ = 0;
  size_t n_spent_ = 0;
};

}  // namespace cria::converter
