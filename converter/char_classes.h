// Characters that no regex of a pre-tokenizer tells apart are one class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "converter/code_points.h"

namespace cria::converter {

// A run of characters of one class, up to the next run.
struct ClassRun {
  uint32_t first;
  uint32_t char_class;
};

struct CharClasses {
  size_t n_classes = 0;
  std::vector<ClassRun> runs;              // ascending from U+0000; neighbours differ
  std::vector<std::vector<bool>> members;  // [set][class]: whether the set holds the class
};

// The fewest classes of which each set is made. Cost: n log n in the sets' ranges, times the sets.
[[nodiscard]] CharClasses classify(std::span<const CodePoints> sets);

}  // namespace cria::converter
