// Generated tables of characters (unicode_category_table.cpp); converter/code_points.h makes sets
// of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "converter/code_points.h"

namespace cria::converter {

// Each starts a run of characters of one general category: first << kCategoryBits | the category's
// place in kCategoryNames (converter/code_points.cpp); ascending, from U+0000.
inline constexpr uint32_t kCategoryBits = 5;
extern const std::span<const uint32_t> kUnicodeCategoryRuns;

struct UnicodeScript {
  std::string_view name;
  std::span<const CodePointRange> ranges;
};
extern const std::span<const UnicodeScript> kUnicodeScripts;

}  // namespace cria::converter
