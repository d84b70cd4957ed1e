// What "format" asks of a string, as patterns: of each format a part that every reader takes.
#pragma once

#include <cstdint>
#include <string_view>

namespace cria::json {

struct Format {
  std::string_view name;
  std::string_view pattern;  // as it would stand in a schema; nothing in it is escaped
  uint32_t most_characters;  // besides; 0: as many as the pattern has
};

inline constexpr uint32_t kFormats = 7;
// The one of a name, below kFormats; kFormats: there is none.
[[nodiscard]] uint32_t find_format(std::string_view name);
[[nodiscard]] const Format& format_at(uint32_t i);

}  // namespace cria::json
