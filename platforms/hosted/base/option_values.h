// What the values of options may be, checked before the option library converts them: it takes
// "-3" for a large unsigned number, "010" for 8 and lets NaN pass a range.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

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

// A value as a message names it.
inline std::string value_words(const std::string& text) {
  return text.empty() ? "an empty text" : text;
}

// Accepts the numbers from low to high.
template <typename Number>
CLI::Validator between(Number low, Number high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        Number value = {};
        if (parse_number(text, &value) && value >= low && value <= high) return std::string();
        std::ostringstream message;
        message << value_words(text) << " is not a number from " << low << " to " << high;
        return message.str();
      },
      "");
}

// Adds an option whose value is numbers from low to high with a comma between each two; given again
// it takes more. The option library's own lists pass over an empty place.
template <typename Number>
CLI::Option* add_list(CLI::App* app, const std::string& name, std::vector<Number>* values,
                      Number low, Number high, const std::string& help) {
  const std::string called = name.substr(name.rfind(',') + 1);
  const auto read = [called, values, low, high](const std::vector<std::string>& texts) {
    values->clear();
    for (const std::string& text : texts) {
      for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        std::string item = text.substr(begin, end - begin);
        const std::string problem = between(low, high)(item);
        if (!problem.empty()) throw CLI::ValidationError(called, problem);
        Number value = {};
        parse_number(item, &value);
        values->push_back(value);
        begin = end + 1;
      }
    }
  };
  return app->add_option_function<std::vector<std::string>>(name, read, help)
      ->allow_extra_args(false)
      ->type_name("N,N,...");
}

// Refuses an option that was given with an empty value, which would silently do nothing. texts are
// the options for which an empty text is one.
inline void refuse_empty_values(const CLI::App& app, std::span<const std::string> texts) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& given = option->results();
    const bool is_empty = std::any_of(given.begin(), given.end(),
                                      [](const std::string& value) { return value.empty(); });
    const bool is_text = std::any_of(texts.begin(), texts.end(), [option](const std::string& name) {
      return option->check_name(name);
    });
    if (!is_empty || is_text) continue;
    throw CLI::ValidationError(option->get_name(),
                               "must not be empty; give a value or leave it out");
  }
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
    throw CLI::ValidationError(name, value_words(text) + " is not one of: " + names);
  };
  return app->add_option_function<std::string>(name, choose, help)->type_name("NAME");
}

}  // namespace cria::hosted
