// JSON that is written. It is text from the start: what holds it takes no memory to end, where a
// Json of nlohmann's that holds others allocates, and without memory ends the program.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::hosted {

class JsonText {
 public:
  struct Member {
    const char* name;  // without anything to escape
    const JsonText& value;
  };

  JsonText(std::nullptr_t) : text_("null") {}
  // What is no UTF-8 comes out with U+FFFD.
  JsonText(std::string_view text);
  JsonText(const std::string& text) : JsonText(std::string_view(text)) {}
  JsonText(const char* text) : JsonText(std::string_view(text)) {}
  JsonText(std::same_as<bool> auto value) : text_(value ? "true" : "false") {}
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) JsonText(Number number) : text_(std::to_string(number)) {}
  // The shortest text that is read as the number again; of a float 0.8 where it is what 0.8
  // becomes. What is no number, or infinite, is null: JSON has none.
  JsonText(double number);
  JsonText(float number);
  template <typename Value>
  JsonText(const std::optional<Value>& value) : JsonText(value ? JsonText(*value) : nullptr) {}

  // What is JSON already.
  static JsonText of(std::string text) { return JsonText(Raw{std::move(text)}); }
  static JsonText object(std::initializer_list<Member> members = {});
  static JsonText array() { return of("[]"); }
  static JsonText array_of(const JsonText& item) { return of('[' + item.text_ + ']'); }
  template <typename List, typename TextOf>
  static JsonText array(const List& list, const TextOf& text_of) {
    JsonText array = JsonText::array();
    for (const auto& each : list) array.push_back(text_of(each));
    return array;
  }

  // Of two strings: the one that both are together.
  [[nodiscard]] JsonText followed_by(const JsonText& other) const {
    return of(text_.substr(0, text_.size() - 1) + other.text_.substr(1));
  }
  // Of an object: one more, whose name may be any text.
  void put(std::string_view name, const JsonText& value);
  // Of an array.
  void push_back(const JsonText& value);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  struct Raw {
    std::string text;
  };
  explicit JsonText(Raw raw) : text_(std::move(raw.text)) {}

  std::string text_;
};

}  // namespace cria::hosted
