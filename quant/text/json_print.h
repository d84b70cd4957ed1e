// JSON texts, printed again as chat templates print the values that they stand for.
//
// Freestanding, without memory of their own; a text is gone through once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/text/chat_template_format.h"

namespace cria {

inline constexpr uint32_t kMaxJsonDepth = 32;

// Where printed text goes, in parts of any size.
class TextSink {
 public:
  virtual void put(std::span<const char> text) = 0;

 protected:
  ~TextSink() = default;
};

// Whether text is one JSON object, at most kMaxJsonDepth deep, and nothing else but white space.
[[nodiscard]] bool is_json_object(std::span<const char> text);

// Goes through the members of an object that is_json_object has seen, or that is a value of one.
class JsonMembers {
 public:
  explicit JsonMembers(std::span<const char> object);
  // False after the last. The key is as it was written, with its quotes.
  bool next(std::span<const char>* key, std::span<const char>* value);

 private:
  std::span<const char> rest_;
};

// Whether a string of a JSON text, with its quotes, is that name, without escapes.
[[nodiscard]] bool is_json_name(std::span<const char> string, const char* name);

// Prints a value of a JSON text. Numbers keep their digits, in the form that Python gives them:
// 1E5 is 100000.0, 1.50 is 1.5. With ChatValueForm::kBare and those in quotes a string loses its
// quotes and escapes; everything else is printed as JSON.
void print_json(std::span<const char> value, const format::ChatValueStyle& style, TextSink* sink);

// Prints a text as a value that is that string.
void print_string(std::span<const char> text, const format::ChatValueStyle& style, TextSink* sink);

}  // namespace cria
