// The tools that a model may call: what a reader of its calls asks about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/json/schema_text.h"

namespace cria::calls {

// What a parameter takes.
enum class ParameterKind : uint8_t {
  kAny,  // JSON, else text: nothing is known, or several types are allowed
  kText,
  kTextOrNull,
};

class Tools {
 public:
  // Tools without text: none.
  Tools() = default;
  // Those of a list that is read.
  explicit Tools(json::SchemaText text) : text_(text), is_empty_(false) {}

  // Values of a text that is read. Errors: kUnsupported for what is no list of tools,
  // kTextTooLong.
  [[nodiscard]] static Status count(std::string_view text, size_t* n_values);
  // values: [n_values]. text and values outlive the result.
  [[nodiscard]] static Status read(std::string_view text, json::SchemaValue* values, Tools* tools);

  [[nodiscard]] bool has(std::string_view name) const { return find(name) != json::kNone; }
  // kAny where the tool or the parameter is unknown. Cost: walks over the tools and the
  // parameters of one.
  [[nodiscard]] ParameterKind kind_of(std::string_view name, std::string_view key) const;
  // The same of a parameter's schema.
  [[nodiscard]] ParameterKind kind_of_schema(uint32_t schema) const;

  // Values of the text, json::kNone where there is none: the tool after another, which begin with
  // the list itself; what has a tool's name and parameters; an object's member.
  [[nodiscard]] uint32_t next_tool(uint32_t tool) const;
  [[nodiscard]] uint32_t function_of(uint32_t tool) const;
  [[nodiscard]] uint32_t member(uint32_t object, std::string_view key) const;
  // Whether a value is a string of those characters.
  [[nodiscard]] bool is_text(uint32_t value, std::string_view text) const;
  static constexpr uint32_t kList = 0;

 private:
  [[nodiscard]] uint32_t find(std::string_view name) const;
  [[nodiscard]] uint32_t types(uint32_t schema) const;
  [[nodiscard]] uint32_t plain_types(uint32_t schema) const;

  json::SchemaText text_;
  bool is_empty_ = true;
};

}  // namespace cria::calls
