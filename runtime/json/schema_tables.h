// The tables of a schema while it is compiled, and the memory that they take.
#pragma once

#include <cstdint>

#include "runtime/base/arena.h"
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
};

// The bytes of all tables; with an arena they are taken from it.
[[nodiscard]] Status lay_out_tables(const SchemaCounts& counts, size_t text_bytes, Arena* arena,
                                    SchemaTables* tables, uint64_t* n_bytes);

// Once all nodes are there: options of options become options, oneOf is held against what its
// alternatives are, and every node learns how deep it must nest. Errors: kUnsupported,
// kTextTooLong.
[[nodiscard]] Status settle_nodes(SchemaTables* tables, Refusal* refusal);

}  // namespace cria::json
