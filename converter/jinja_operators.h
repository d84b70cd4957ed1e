// Operators and tests of templates as Python's and Jinja2's are, as functions for minja to call
// (converter/jinja_operations.h writes the calls).
//
// What Python raises of is an error, and so is what would depend on more than the conversations
// that templates are tried with: the order of texts, a fraction.
#pragma once

#include <cstddef>
#include <minja/minja.hpp>
#include <string_view>
#include <vector>

namespace cria::converter {

// None. minja does not tell it from what is undefined, which is its null; a fraction is in no
// template that is taken.
[[nodiscard]] minja::Value none_value();
[[nodiscard]] bool is_none(const minja::Value& value);

// What str() gives of a text, number, truth value, none or what is undefined. Throws for others.
[[nodiscard]] std::string written_text(const minja::Value& value);

// A test of Jinja2's. Throws std::runtime_error for one that is unknown.
[[nodiscard]] bool holds(std::string_view test, const minja::Value& value,
                         const std::vector<minja::Value>& arguments);

// What all renderings of a template may take together.
class JinjaBudget {
 public:
  static constexpr size_t kBytesInAStep = 256;
  // Steps, each of which is a call, an item of a loop, or some bytes. Throws std::runtime_error.
  void spend(size_t steps);
  // Throws again where it is spent: what failed by it is no refusal of the template's own.
  void check() const;

 private:
  size_t spent_ = 0;
};

// Sets the functions by their names; budget has to outlive them.
void set_jinja_operators(JinjaBudget* budget, minja::Value* functions);

}  // namespace cria::converter
