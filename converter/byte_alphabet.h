// The byte alphabet of GPT-2: how byte-level BPE writes bytes as printable characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cria::converter {

// The bytes that text stands for; nullopt when it has a character outside the alphabet.
[[nodiscard]] std::optional<std::string> bytes_of_alphabet(std::string_view text);

}  // namespace cria::converter
