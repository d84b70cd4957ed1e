// The JSON of requests: bounded before it is read, and its members by name and kind.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace cria::hosted {

using Json = nlohmann::json;

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

// The text of the member that the names lead to, through objects inside each other, as it stands in
// an object that parse_object took; empty where there is none. Of a name that is there twice the
// last counts, as in the parser.
std::string_view raw_member(std::string_view object, std::initializer_list<std::string_view> names);

// Members of a request's object. One that is null is one that is not there. Each throws ApiError,
// naming the member, for a value of another kind or out of range.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  // Null: there is none.
  [[nodiscard]] const Json* find(const char* name) const;
  [[nodiscard]] bool flag(const char* name, bool usual) const;
  [[nodiscard]] std::optional<std::string> text(const char* name) const;
  [[nodiscard]] std::optional<double> number(const char* name, double low, double high) const;
  [[nodiscard]] std::optional<int64_t> integer(const char* name, int64_t low, int64_t high) const;
  [[nodiscard]] const Json* list(const char* name) const;
  [[nodiscard]] const Json* object(const char* name) const;

 private:
  const Json& object_;
};

// Throws ApiError unless json is a token id below vocab_size; param names the member.
uint32_t token_id(const Json& json, uint32_t vocab_size, const char* param);

// 0.8 where a float is what 0.8 becomes.
Json shortest(float value);

// Text that is no UTF-8 comes out with U+FFFD.
std::string dump(const Json& json);

}  // namespace cria::hosted
