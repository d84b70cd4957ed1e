// Changes JSON texts by their structure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/random_choice.h"

namespace cria::fuzz {

// text with one value changed, taken away, doubled, moved or replaced by one that is elsewhere in
// it or in words; text itself when it is no JSON.
[[nodiscard]] std::string changed_json(std::string_view text, std::span<const char* const> words,
                                       RandomChoice* random);

}  // namespace cria::fuzz
