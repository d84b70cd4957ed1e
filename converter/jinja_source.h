// The text of a Jinja template, rewritten so that minja gives what Python's Jinja2 gives with the
// settings of transformers (trim_blocks, lstrip_blocks, no trailing newline).
//
// minja takes white space away before expressions too, knows only the commonest escapes of strings,
// keeps what an iteration of a loop sets for the next one, lets a loop's variable outlive it, and
// computes much otherwise. White space, strings, comments, raw blocks, loops and operations
// (converter/jinja_operations.h) are therefore settled here.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace cria::converter {

struct JinjaSource {
  std::string text;                // for minja, which has to leave all white space as it is
  std::set<std::string> literals;  // the texts of its string literals
  std::set<std::string> tested;    // of these, what may be looked for in contents
  std::set<size_t> numbers;        // what messages may be counted to
};

// Throws std::runtime_error, one line, for what is no Jinja or is not understood.
[[nodiscard]] JinjaSource rewrite_jinja(std::string_view jinja);

}  // namespace cria::converter
