// Parts of JSON as they are written: their digits and the order of their keys stay.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace cria::hosted {

// Of text that is known to be JSON. The value of an object's member; of a name that is there twice
// the last counts, as in the parser. Nothing: there is none, or it is no object.
std::optional<std::string_view> member_text(std::string_view json, std::string_view name);

// The items of a list; none of what is no list.
std::vector<std::string_view> item_texts(std::string_view json);

}  // namespace cria::hosted
