// The operations of a tag, read with Jinja2's grammar and written as calls of the renderer's own
// functions (converter/jinja_operators.h), each in brackets of its own.
//
// minja binds some operators otherwise and computes many otherwise than Jinja2. A stored template
// is compared with what minja renders: where minja itself were wrong, that would not show.
#pragma once

#include <string_view>

#include "converter/jinja_lexer.h"

namespace cria::converter {

// What every function of the renderer's own begins with; no name of a template may.
inline constexpr std::string_view kJinjaOwnPrefix = "cria_";

// Methods of texts: x.name(...) becomes (x | cria_name(...)).
inline constexpr std::string_view kJinjaTextMethods[] = {
    "strip", "lstrip",     "rstrip",  "lower",      "upper",   "title",
    "split", "capitalize", "replace", "startswith", "endswith"};

// Throws std::runtime_error, one line, for what is no Jinja or is not understood.
void rewrite_operations(JinjaTag* tag);

}  // namespace cria::converter
