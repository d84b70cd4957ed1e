#include "converter/char_classes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace cria::converter {
namespace {

// From here on a set holds the characters that it did not hold before, or the other way round.
struct Border {
  uint32_t first;
  size_t set;
};

}  // namespace

CharClasses classify(std::span<const CodePoints> sets) {
  std::vector<Border> borders;
  for (size_t set = 0; set < sets.size(); ++set) {
    for (const CodePointRange& range : sets[set].ranges()) {
      borders.push_back({range.first, set});
      borders.push_back({range.last + 1, set});
    }
  }
  std::sort(borders.begin(), borders.end(),
            [](const Border& a, const Border& b) { return a.first < b.first; });
  CharClasses result;
  std::map<std::vector<bool>, uint32_t> known;
  std::vector<bool> holding(sets.size(), false);
  size_t next = 0;
  for (uint32_t first = 0; first <= kLastCodePoint;) {
    for (; next < borders.size() && borders[next].first == first; ++next) {
      holding[borders[next].set] = !holding[borders[next].set];
    }
    const auto [entry, is_new] = known.emplace(holding, static_cast<uint32_t>(known.size()));
    if (result.runs.empty() || result.runs.back().char_class != entry->second) {
      result.runs.push_back({first, entry->second});
    }
    first = next < borders.size() ? borders[next].first : kLastCodePoint + 1;
  }
  result.n_classes = known.size();
  result.members.assign(sets.size(), std::vector<bool>(known.size()));
  for (const auto& [in_sets, char_class] : known) {
    for (size_t set = 0; set < sets.size(); ++set) result.members[set][char_class] = in_sets[set];
  }
  return result;
}

}  // namespace cria::converter
