// The text of a schema as a list of its values, made and checked in one pass: whoever reads it
// afterwards looks at JSON that holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <cria_json.h>
#include "runtime/base/status.h"

namespace cria::json {

inline constexpr uint32_t kNone = 0xffffffff;
inline constexpr size_t kMostSchemaBytes = size_t{1} << 20;
inline constexpr uint32_t kMostSchemaNesting = 64;
// minLength and maxLength beside a pattern.
inline constexpr uint32_t kMostCountedLength = 1024;

// A value in the order of the text; an object's members are a string and a value each.
struct SchemaValue {
  uint32_t offset;  // of its first byte
  uint32_t next;    // the value after it and all that it contains
};
static_assert(sizeof(SchemaValue) == 8);

// What is in a schema, from which the memory for its compilation follows.
struct SchemaCounts {
  uint32_t n_values;
  uint32_t n_schemas;  // objects, true and false: what may be one
  uint32_t n_strings;
  uint32_t n_members;
  uint32_t n_bounds;  // members called minimum, maximum, ..., and formats of numbers
  uint32_t n_patterns;
  uint32_t pattern_positions;  // upper bounds over all members called pattern
  uint32_t pattern_ranges;
  uint32_t n_formats;  // different ones, whose patterns are counted among those
  uint32_t n_alive;    // sets for lengths beside patterns and formats, at most
};

// Where and why a schema is refused. reason is static text that reads on from the keyword's name.
struct Refusal {
  size_t offset;
  const char* reason;
  std::string_view keyword;  // of the schema's text; empty: none
};

// Reads one JSON value with nothing but white space around it. values: null only to count, else
// [counts->n_values]. Errors: kUnsupported, kTextTooLong.
[[nodiscard]] Status read_schema_text(std::string_view text, SchemaValue* values,
                                      SchemaCounts* counts, Refusal* refusal);

// A text that read_schema_text took.
class SchemaText {
 public:
  SchemaText() = default;
  SchemaText(std::string_view text, const SchemaValue* values) : text_(text), values_(values) {}

  // '{', '[', '"', 't', 'f', 'n', '-' or a digit.
  [[nodiscard]] char kind(uint32_t value) const { return text_[values_[value].offset]; }
  [[nodiscard]] bool is_number(uint32_t value) const {
    const char c = kind(value);
    return c == '-' || (c >= '0' && c <= '9');
  }
  [[nodiscard]] size_t offset(uint32_t value) const { return values_[value].offset; }
  [[nodiscard]] uint32_t next(uint32_t value) const { return values_[value].next; }
  // The text of a scalar as it stands, of a string without its quotes.
  [[nodiscard]] std::string_view raw(uint32_t value) const;

 private:
  std::string_view text_;
  const SchemaValue* values_ = nullptr;
};

// One character of a string's raw text, escapes undone; moves at. The text holds.
[[nodiscard]] uint32_t next_character(std::string_view raw, size_t* at);

// The value of a hexadecimal digit; 16 of anything else.
[[nodiscard]] uint32_t hex_value(uint32_t c);

// Units of UTF-16 that are half a character: first halves, second halves, what is after them.
inline constexpr uint32_t kFirstHigh = 0xd800;
inline constexpr uint32_t kFirstLow = 0xdc00;
inline constexpr uint32_t kBehindSurrogates = 0xe000;
// The character of both halves.
[[nodiscard]] constexpr uint32_t join_surrogates(uint32_t high, uint32_t low) {
  return 0x10000 + ((high - kFirstHigh) << 10) + (low - kFirstLow);
}

// Writes a character the one way in which cria writes it in JSON: escaped only where it must be.
// Returns the bytes, at most 6.
size_t put_json_character(uint32_t code, char* out);
// The character in UTF-8; returns the bytes, at most 4.
size_t put_utf8(uint32_t code, char* out);

}  // namespace cria::json
