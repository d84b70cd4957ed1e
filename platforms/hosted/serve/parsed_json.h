// The JSON of a request as it is kept; it has the JSON library's whole header.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "platforms/hosted/serve/json_fields.h"

namespace cria::hosted {

// What a request said. A Json of nlohmann's that holds others allocates when it ends, and where
// there is no memory that ends the program; this one is taken apart first.
struct ParsedJson {
  ParsedJson() = default;
  ParsedJson(ParsedJson&&) noexcept = default;
  ParsedJson& operator=(ParsedJson&&) = delete;
  ~ParsedJson();
  Json json;
};

// An object, with those of its members that a request can have; others are looked at and dropped.
// Throws ApiError for what is none, for what is nested too deep, and for more values than any
// request needs.
ParsedJson parse_object(const std::string& body);

}  // namespace cria::hosted
