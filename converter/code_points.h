// Sets of Unicode characters, as regexes name them. Unicode 15.0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cria::converter {

inline constexpr uint32_t kLastCodePoint = 0x10ffff;

struct CodePointRange {
  uint32_t first;
  uint32_t last;
  bool operator==(const CodePointRange&) const = default;
};

// Ascending ranges, no two of which touch.
class CodePoints {
 public:
  CodePoints() = default;
  // In any order; they may overlap.
  explicit CodePoints(std::vector<CodePointRange> ranges);

  [[nodiscard]] std::span<const CodePointRange> ranges() const { return ranges_; }
  [[nodiscard]] bool has(uint32_t code) const;
  [[nodiscard]] CodePoints complement() const;
  bool operator==(const CodePoints&) const = default;

 private:
  std::vector<CodePointRange> ranges_;
};

[[nodiscard]] CodePoints unite(const CodePoints& a, const CodePoints& b);
[[nodiscard]] CodePoints intersect(const CodePoints& a, const CodePoints& b);

// The characters of \p{name}: a general category ("Lu", "L") or a script ("Han"); nullopt for
// others.
[[nodiscard]] std::optional<CodePoints> property_code_points(std::string_view name);
// \s: the property White_Space.
[[nodiscard]] CodePoints white_space_code_points();
// \w: letters, marks, decimal digits and connecting punctuation.
[[nodiscard]] CodePoints word_code_points();

}  // namespace cria::converter
