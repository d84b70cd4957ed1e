// Values and names of a schema as cria writes them: compact, each character in one way.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/json/schema_tables.h"

namespace cria::json {

// Appends a value of the schema to its texts. Errors: kTextTooLong, kUnsupported (a name twice).
[[nodiscard]] Status put_literal(SchemaTables* tables, uint32_t value, TextPart* part,
                                 Refusal* refusal);
// Appends a name and the quote after it.
[[nodiscard]] TextPart put_name(SchemaTables* tables, uint32_t value, uint32_t* hash);

}  // namespace cria::json
