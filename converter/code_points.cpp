#include "converter/code_points.h"

#include <algorithm>
#include <utility>

#include "converter/unicode_category_table.h"

namespace cria::converter {
namespace {

// In the order of scripts/generate_unicode_tables.py.
constexpr std::string_view kCategoryNames[] = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

}  // namespace

CodePoints::CodePoints(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const CodePointRange& range : ranges) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool CodePoints::has(uint32_t code) const {
  const auto behind =
      std::upper_bound(ranges_.begin(), ranges_.end(), code,
                       [](uint32_t wanted, const auto& range) { return wanted < range.first; });
  return behind != ranges_.begin() && std::prev(behind)->last >= code;
}

CodePoints CodePoints::complement() const {
  CodePoints result;
  uint32_t first = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > first) result.ranges_.push_back({first, range.first - 1});
    first = range.last + 1;
  }
  if (first <= kLastCodePoint) result.ranges_.push_back({first, kLastCodePoint});
  return result;
}

CodePoints unite(const CodePoints& a, const CodePoints& b) {
  std::vector<CodePointRange> all(a.ranges().begin(), a.ranges().end());
  all.insert(all.end(), b.ranges().begin(), b.ranges().end());
  return CodePoints(std::move(all));
}

CodePoints intersect(const CodePoints& a, const CodePoints& b) {
  return unite(a.complement(), b.complement()).complement();
}

std::optional<CodePoints> property_code_points(std::string_view name) {
  for (const UnicodeScript& script : kUnicodeScripts) {
    if (script.name == name) return CodePoints({script.ranges.begin(), script.ranges.end()});
  }
  // "L" is every category whose name begins so.
  const auto is_meant = [name](std::string_view category) {
    return name.size() == 1 ? category.starts_with(name) : category == name;
  };
  if (std::none_of(std::begin(kCategoryNames), std::end(kCategoryNames), is_meant)) {
    return std::nullopt;
  }
  std::vector<CodePointRange> ranges;
  const auto runs = kUnicodeCategoryRuns;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!is_meant(kCategoryNames[runs[i] % (1U << kCategoryBits)])) continue;
    const uint32_t end = i + 1 < runs.size() ? runs[i + 1] >> kCategoryBits : kLastCodePoint + 1;
    ranges.push_back({runs[i] >> kCategoryBits, end - 1});
  }
  return CodePoints(std::move(ranges));
}

CodePoints white_space_code_points() {
  constexpr CodePointRange kControls = {'\t', '\r'};
  constexpr CodePointRange kNextLine = {0x85, 0x85};
  return unite(CodePoints({kControls, kNextLine}), *property_code_points("Z"));
}

CodePoints word_code_points() {
  CodePoints all;
  for (const char* name : {"L", "M", "Nd", "Pc"}) all = unite(all, *property_code_points(name));
  return all;
}

}  // namespace cria::converter
