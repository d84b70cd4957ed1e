// Beginnings, ends and gaps of texts.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace cria::converter {

[[nodiscard]] bool begins_with(const std::string& text, const std::string& begin);
[[nodiscard]] bool ends_with(const std::string& text, const std::string& end);
// A text without the end or the beginning that it has.
[[nodiscard]] std::string without_end(const std::string& text, const std::string& end);
[[nodiscard]] std::string without_begin(const std::string& text, const std::string& begin);

// The texts before, between and after contents that stand in a text once and in this order;
// nullopt: they do not.
using Gaps = std::vector<std::string>;
[[nodiscard]] std::optional<Gaps> gaps_of(const std::string& text,
                                          std::initializer_list<const char*> contents);

}  // namespace cria::converter
