// A tokenizer.json to change: byte-level BPE with the letters a to c and a space.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cria::test {

// Of 7 tokens, ids 0 to 6; added_tokens is the member of that name.
inline nlohmann::json letters_tokenizer(const nlohmann::json& added_tokens) {
  constexpr const char* kSpace = "\xC4\xA0";  // U+0120 in the alphabet of bytes
  const std::string space_a = std::string(kSpace) + "a";
  nlohmann::json tokenizer;
  tokenizer["added_tokens"] = added_tokens;
  tokenizer["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  tokenizer["decoder"] = {{"type", "ByteLevel"}};
  tokenizer["model"] = {
      {"type", "BPE"},
      {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {kSpace, 3}, {"ab", 4}, {space_a, 5}, {"abc", 6}}},
      {"merges", {"a b", std::string(kSpace) + " a", "ab c"}}};
  return tokenizer;
}

}  // namespace cria::test
