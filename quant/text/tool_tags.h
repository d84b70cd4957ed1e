// A function of a tool, printed with a tag around each of its fields, as Qwen3-Coder and Nemotron 3
// are shown them.
#pragma once

#include <span>

#include "quant/text/json_print.h"

namespace cria {

// function: an object that is_json_object has seen. Why it cannot be printed so, as chat_refusal
// says it; null: it can.
[[nodiscard]] const char* tags_refusal(std::span<const char> function);

// <function>, <name>, <description>, <parameters> with a <parameter> each, then what else is there,
// by its names.
//   has_own_lists  "enum" and "required" come after what is known, and all lists are JSON; else a
//                  list is written as Python's str() of it, where it stands
void print_tags(std::span<const char> function, bool has_own_lists, TextSink* sink);

}  // namespace cria
