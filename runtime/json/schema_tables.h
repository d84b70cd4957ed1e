// The tables of a schema while it is compiled, and the memory that they take.
#pragma once

#include <cstdint>

#include "runtime/base/arena.h"
#include "runtime/json/formats.h"
#include "runtime/json/schema.h"

namespace cria::json {

// Values of a schema that a node may have as alternatives, options of options counted.
inline constexpr uint32_t kMostOptions = 64;

// An object's member by the value that is its name.
struct SchemaMember {
  uint32_t object;
  uint32_t name;
};

struct SchemaTables {
  Schema schema;
  SchemaText text;
  SchemaValue* values;
  uint32_t* node_of;      // beside values: kNone, or the node of the schema there
  SchemaMember* members;  // ascending by object and name
  uint32_t* stack;        // beside nodes, for searching through options
  uint32_t* stamps;
  uint32_t n_values;
  uint32_t n_members;
  uint32_t most_links;
  uint32_t root;               // the value that "#" means
  char excluded;               // stands in no text of a pattern; 0: none
  uint32_t formats[kFormats];  // their patterns; kNone: none so far
  uint32_t n_compared;         // alternatives of oneOf, names and constants in them
};

// The bytes of all tables; with an arena they are taken from it.
[[nodiscard]] Status lay_out_tables(const SchemaCounts& counts, size_t text_bytes, Arena* arena,
                                    SchemaTables* tables, uint64_t* n_bytes);

// Reads a text of JSON into tables in memory, with the nodes that every schema has.
[[nodiscard]] Status open_tables(std::string_view text, std::span<uint8_t> memory,
                                 SchemaTables* tables, Refusal* refusal);

// What becomes of a schema that is not understood.
enum class Strictness : uint8_t {
  kExact,   // it is refused
  kLenient  // keywords that are not understood say nothing, or nothing but the type does
};

// Compiles the schema that a value of the text is, beside those that were. Documents are not held
// against it yet. Errors: kUnsupported, kTextTooLong.
[[nodiscard]] Status add_schema(SchemaTables* tables, uint32_t value, Strictness strictness,
                                uint32_t* node, Refusal* refusal);

// Once the nodes from first on are there: options of options become options, oneOf is held against
// what its alternatives are, and every node learns how deep it must nest. Errors: kUnsupported,
// kTextTooLong.
[[nodiscard]] Status settle_nodes(SchemaTables* tables, uint32_t first, Strictness strictness,
                                  Refusal* refusal);

}  // namespace cria::json
