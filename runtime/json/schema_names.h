// The members of a schema's objects by their names, and what a $ref points to.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/json/schema_tables.h"

namespace cria::json {

// Less than, equal to or greater than 0: two strings of a schema's text, by their characters.
[[nodiscard]] int compare_names(std::string_view a, std::string_view b);

// Fills tables->members. Time: n log n.
void sort_members(SchemaTables* tables);

// The first member of an object, in the text's order, whose name stood before; kNone: there is
// none.
[[nodiscard]] uint32_t find_twin(const SchemaTables& tables, uint32_t object);

// The value that a reference points to: "#", or "#/" and names and numbers between slashes, with
// the escapes of JSON, of URIs and of pointers. Null: it is there; else why not. n_items counts the
// items of lists that all references went past.
[[nodiscard]] const char* follow_reference(const SchemaTables& tables, std::string_view raw,
                                           uint32_t* n_items, uint32_t* target);

}  // namespace cria::json
