// Why a text is no JSON, for people.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

namespace cria::hosted {

// What the parser's error, which ends after so many bytes, is about: "the number that ends at byte
// 12 is larger than any double".
std::string json_fault(size_t n_bytes, const std::exception& error);

// The same of a text; empty: it is JSON.
std::string json_fault(std::string_view bytes);

}  // namespace cria::hosted
