// Functions and filters of templates as Python's and Jinja2's are, for minja to call.
//
// What would depend on more than the conversations that templates are tried with is an error: the
// case of what is said, or a number read from it.
#pragma once

#include <cstddef>
#include <minja/minja.hpp>
#include <set>
#include <string>

namespace cria::converter {

// Whether a template asks for the length of a text, and what is added to that of texts that are not
// empty, to find out whether more than that depends on it.
struct TextLengths {
  bool are_asked = false;
  size_t added = 0;
};

// Sets them by their names.
//   literals  texts of the template, whose case it may change
//   lengths   has to outlive the functions, as literals do
void set_jinja_functions(const std::set<std::string>& literals, TextLengths* lengths,
                         minja::Value* functions);

}  // namespace cria::converter
