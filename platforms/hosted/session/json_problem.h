// What is said of JSON that cannot be promised.
#pragma once

#include <string>
#include <string_view>

#include <cria_call_grammar.h>
#include <cria_json.h>

namespace cria::hosted {

// Of a tokenizer for which cria_json_vocabulary_required is CRIA_UNSUPPORTED.
inline constexpr const char* kNoJsonTokens =
    "the tokenizer lacks tokens for single bytes, so that JSON cannot be guaranteed";

// "byte 57, in /properties/a: \"pattern\" is no string", for a problem of the schema that has a
// reason; a keyword of the whole schema has no path.
std::string text_of_problem(const cria_json_problem& problem, std::string_view schema);

// "tool 2 ('add'): in /parameters/properties/a: \"pattern\" is no string", for a problem of tools,
// which are objects with a "function". The way is from there, as every style of requests has it.
std::string text_of_problem(const cria_call_problem& problem, std::string_view tools);

}  // namespace cria::hosted
