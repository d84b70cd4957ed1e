// A function of a tool, printed member by member, as Mistral 7B is shown it: texts as they are,
// without escapes, all else as JSON.
#pragma once

#include <span>

#include "quant/text/json_print.h"

namespace cria {

// function: an object that is_json_object has seen. Why it cannot be printed so, as chat_refusal
// says it; null: it can. Its members are a name, a description, parameters and strict, or some of
// these, in any order.
[[nodiscard]] const char* members_refusal(std::span<const char> function);

// {"key": "text", "key": value}, in the order of the function.
void print_members(std::span<const char> function, TextSink* sink);

}  // namespace cria
