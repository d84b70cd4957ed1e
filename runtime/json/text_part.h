// A part of a text, as far as the text goes: std::string_view's own may throw.
#pragma once

#include <algorithm>
#include <string_view>

namespace cria::json {

[[nodiscard]] inline std::string_view part_of(std::string_view text, size_t begin,
                                              size_t n_bytes = std::string_view::npos) {
  const size_t first = std::min(begin, text.size());
  return {text.data() + first, std::min(n_bytes, text.size() - first)};
}

}  // namespace cria::json
