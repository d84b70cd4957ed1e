// The operations of a tag that minja does otherwise than Jinja2, rewritten to functions of the
// renderer (converter/jinja_functions.h), which do as Python does or refuse.
//
// A stored template is compared with what minja renders. Where minja itself would be wrong, the
// comparison could not see it: such an operation is settled here or is an error.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "converter/jinja_lexer.h"

namespace cria::converter {

// What every function of the renderer's own begins with; no name of a template may.
inline constexpr std::string_view kJinjaOwnPrefix = "cria_";

// Methods of texts: x.name(...) becomes (x | cria_name(...)).
inline constexpr std::string_view kJinjaTextMethods[] = {
    "strip", "lstrip",     "rstrip",  "lower",      "upper",   "title",
    "split", "capitalize", "replace", "startswith", "endswith"};
// What a subscript that is no member's name, a remainder and a comparison with true or false may
// not be applied to is found out when it happens: x[i] becomes (x | cria_no_text)[i].
inline constexpr std::string_view kJinjaNoText = "cria_no_text";
inline constexpr std::string_view kJinjaNatural = "cria_natural";
inline constexpr std::string_view kJinjaNoNumber = "cria_no_number";

// Names that something is assigned to: variables, members of namespaces, named arguments.
[[nodiscard]] std::set<std::string> assigned_jinja_names(const std::vector<JinjaTag>& tags);

// Throws std::runtime_error, one line, for what cannot be settled.
void settle_operations(const std::set<std::string>& assigned, JinjaTag* tag);

}  // namespace cria::converter
