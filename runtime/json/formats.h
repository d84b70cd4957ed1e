// What "format" asks of a string, as patterns: of each format a part that every reader takes; and
// of a number, as bounds.
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

// What it asks of a number.
struct NumberFormat {
  std::string_view name;
  uint64_t most_below_zero;  // magnitudes; kDigitsLimit: as large as any that is written
  uint64_t most;
  bool is_integer;
  bool is_single;  // a float, which an exponent may be too large for
};

// Null: there is none of the name.
[[nodiscard]] const NumberFormat* find_number_format(std::string_view name);

}  // namespace cria::json
