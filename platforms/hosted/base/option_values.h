// What the values of options may be, checked before the option library converts them: it takes
// "-3" for a large unsigned number, "010" for 8 and lets NaN pass a range.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>

namespace cria::hosted {

// Whether text is a number and nothing else: decimal digits without leading zeros for integers, of
// which signed ones may have a minus in front; what the option library takes for float.
template <typename Number>
bool parse_number(const std::string& text, Number* value) {
  if constexpr (std::is_integral_v<Number>) {
    const char* const end = text.data() + text.size();
    const std::from_chars_result result = std::from_chars(text.data(), end, *value);
    return result.ec == std::errc() && result.ptr == end && text == std::to_string(*value);
  } else {
    return CLI::detail::lexical_cast(text, *value);
  }
}

// Accepts the numbers from low to high.
template <typename Number>
CLI::Validator between(Number low, Number high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        Number value = {};
        if (parse_number(text, &value) && value >= low && value <= high) return std::string();
        std::ostringstream message;
        message << text << " is not a number from " << low << " to " << high;
        return message.str();
      },
      "");
}

// A word that an option takes, and what it means.
template <typename Value>
struct Named {
  const char* name;
  Value value;
};

// Adds an option whose value is one of the names of rows, which must outlive app.
template <typename Value>
CLI::Option* add_named(CLI::App* app, const std::string& name,
                       std::type_identity_t<std::span<const Named<Value>>> rows, Value* value,
                       const std::string& help) {
  const auto choose = [name, rows, value](const std::string& text) {
    std::string names;
    for (const Named<Value>& row : rows) {
      if (text == row.name) {
        *value = row.value;
        return;
      }
      names += names.empty() ? "" : ", ";
      names += row.name;
    }
    throw CLI::ValidationError(name, text + " is not one of: " + names);
  };
  return app->add_option_function<std::string>(name, choose, help)->type_name("NAME");
}

}  // namespace cria::hosted
