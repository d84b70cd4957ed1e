// The tools of a grammar: their names as a form writes them, and their parameters compiled.
#pragma once

#include <cstdint>
#include <string_view>

#include "quant/text/call_format.h"
#include "runtime/base/status.h"
#include "runtime/json/rules.h"
#include "runtime/json/schema_tables.h"

namespace cria::calls {

struct ToolRefusal {
  std::string_view tool;  // its name, of the tools' text; empty: no tool's
  json::Refusal refusal;
};

// Compiles the tools that stand in tables into entries, of which there is room for each object of
// the text, ascending by name. only: the name of the one that is meant; null: all are. Without
// has_calls their parameters are not looked at. Errors: kUnsupported, kTextTooLong.
struct ToolsToCompile {
  const CallFormat* form;
  const std::string_view* only;
  bool has_calls;
};
[[nodiscard]] Status compile_tools(const ToolsToCompile& what, json::SchemaTables* tables,
                                   json::ToolEntry* entries, uint32_t* n_entries,
                                   ToolRefusal* refusal);

}  // namespace cria::calls
