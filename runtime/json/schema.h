// A compiled schema: nodes that say which values may stand somewhere, and the tables they point to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/json/number_range.h"
#include "runtime/json/pattern.h"
#include "runtime/json/schema_text.h"

namespace cria::json {

// Containers open at once in a document. A schema all of whose documents are deeper is refused.
inline constexpr uint32_t kMostDepth = 32;
inline constexpr uint8_t kImpossible = kMostDepth + 1;  // as a depth
inline constexpr uint32_t kEndless = 0xffffffff;        // no upper limit

// What a value may be: bits of Node::kinds.
inline constexpr uint32_t kNull = 1 << 0;
inline constexpr uint32_t kBoolean = 1 << 1;
inline constexpr uint32_t kNumber = 1 << 2;
inline constexpr uint32_t kString = 1 << 3;
inline constexpr uint32_t kArray = 1 << 4;
inline constexpr uint32_t kObject = 1 << 5;
inline constexpr uint32_t kLiterals = 1 << 6;  // enum and const
inline constexpr uint32_t kAllKinds = (1 << 6) - 1;

// Nodes that every schema has.
inline constexpr uint32_t kAnyNode = 0;
inline constexpr uint32_t kNeverNode = 1;
inline constexpr uint32_t kBuiltNodes = 2;

struct Node {
  uint32_t kinds;
  uint32_t source;        // the value of the schema that it comes from
  uint32_t first_option;  // anyOf: nodes in links; a node with options has no kinds of its own
  uint32_t n_options;
  uint32_t range;  // of numbers
  uint32_t pattern;
  uint32_t first_alive;  // in Schema::alive, where a pattern has lengths beside it; kNone
  uint32_t least_characters;
  uint32_t most_characters;
  uint32_t items;
  uint32_t first_prefix;  // nodes of the first items, in links
  uint32_t n_prefix;
  uint32_t least_items;
  uint32_t most_items;
  uint32_t first_property;
  uint32_t n_properties;
  uint32_t additional;
  uint32_t first_literal;  // ascending
  uint32_t n_literals;
  // Containers that the least nested value opens; kImpossible: there is none.
  uint8_t depth;
  uint8_t array_depth;
  uint8_t object_depth;
  uint8_t one_of;  // nonzero: first_prefix has the alternatives, of which one may hold
};
static_assert(sizeof(Node) == 80);

struct TextPart {
  uint32_t offset;  // in Schema::text
  uint32_t n_bytes;
};

// How a value between tags is written.
enum class TagValue : uint32_t { kJson, kText, kTextOrNull };

// In the order of the schema.
struct Property {
  TextPart name;  // as it is written, without the quote before it and with the one after
  uint32_t hash;  // of its characters
  uint32_t node;
  // The first required property from here on, of this object; its number of properties: none.
  uint32_t reach;
  TagValue in_tags;
};

struct Rules;

struct Schema {
  const Rules* rules;  // null: a document is a value of root
  Node* nodes;
  Property* properties;
  uint32_t* by_name;  // beside properties: numbers of an object's, ascending by name
  TextPart* literals;
  NumberRange* ranges;
  Pattern* patterns;
  // Positions of a pattern from which a text of a length that is allowed can still end, after so
  // many characters: up to the most of them or, where there is none, the fewest.
  PositionSet* alive;
  uint32_t* links;
  char* text;
  PatternPools pools;
  uint32_t n_nodes;
  uint32_t n_properties;
  uint32_t n_literals;
  uint32_t n_ranges;
  uint32_t n_patterns;
  uint32_t n_alive;
  uint32_t n_links;
  uint32_t n_text;
  uint32_t root;

  // Which of the positions that may be read as character number n_characters of a string are worth
  // it.
  [[nodiscard]] PositionSet leads_on(const Node& node, PositionSet next,
                                     uint32_t n_characters) const;
  [[nodiscard]] std::string_view part(TextPart p) const { return {text + p.offset, p.n_bytes}; }
};

// The hash of names: FNV-1a of their UTF-8.
inline constexpr uint32_t kHashStart = 2166136261u;
[[nodiscard]] inline uint32_t add_to_hash(uint32_t hash, uint8_t byte) {
  return (hash ^ byte) * 16777619u;
}

// Bytes that compile_schema needs for a text, to the byte; the same on every target of a pointer
// size. An empty text without a pointer stands for any JSON value.
[[nodiscard]] Status schema_bytes(std::string_view text, uint64_t* n_bytes, Refusal* refusal);

// Compiles a schema into memory, 64-byte aligned. Time: n log n, within the limits of docs/json.md.
[[nodiscard]] Status compile_schema(std::string_view text, std::span<uint8_t> memory,
                                    Schema* schema, Refusal* refusal);

}  // namespace cria::json
