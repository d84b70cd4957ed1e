// What is said of JSON that cannot be promised.
#pragma once

#include <string>

#include <cria_json.h>

namespace cria::hosted {

// Of a tokenizer for which cria_json_vocabulary_required is CRIA_UNSUPPORTED.
inline constexpr const char* kNoJsonTokens =
    "the tokenizer lacks tokens for single bytes, without which no JSON can be promised";

// "byte 17: \"patternProperties\" is not supported", for a problem that has a reason.
std::string text_of_problem(const cria_json_problem& problem);

}  // namespace cria::hosted
