// Parts of a JSON text as they were written: with their own digits, and members in their order.
// Every text here is one that a parser has taken.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace cria::hosted {

// The text of the member that the names lead to, through objects inside each other. Of a name that
// is there twice the last counts, as in the parser.
std::optional<std::string_view> raw_member(std::string_view object,
                                           std::initializer_list<std::string_view> names);

// The same, of names with slashes between them; an empty path leads to nothing.
std::string_view raw_path(std::string_view object, std::string_view path);

// The texts of an array's elements; of what is no array, none.
std::vector<std::string_view> raw_elements(std::string_view array);

}  // namespace cria::hosted
