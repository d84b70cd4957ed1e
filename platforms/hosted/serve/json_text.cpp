#include "platforms/hosted/serve/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "platforms/hosted/base/print_format.h"

namespace cria::hosted {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Bytes of the whole character of UTF-8 that begins text; 0: there is none.
size_t character_size(std::string_view text) {
  const auto byte = [text](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const uint32_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t n = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Written longer than they need be, halves of UTF-16, and beyond Unicode.
  const bool is_none = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
                       (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90);
  return is_none ? 0 : n;
}

void append_escaped(char c, std::string* out) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  if (const size_t i = kShort.find(c); i != std::string_view::npos) {
    *out += '\\';
    *out += kLetters[i];
  } else if (static_cast<unsigned char>(c) < 0x20) {
    *out += text_of("\\u%04x", static_cast<unsigned>(c));
  } else {
    *out += c;
  }
}

void append_string(std::string_view text, std::string* out) {
  *out += '"';
  while (!text.empty()) {
    const size_t n = character_size(text);
    if (n == 1) {
      append_escaped(text[0], out);
    } else {
      *out += n == 0 ? kReplacement : text.substr(0, n);
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  *out += '"';
}

template <typename Number>
std::string text_of_number(Number number) {
  if (!std::isfinite(number)) return "null";
  std::array<char, 64> digits = {};
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  std::string text(digits.data(), static_cast<size_t>(end - digits.data()));
  // Some readers know by it that the number is none of whole ones.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

JsonText::JsonText(std::string_view text) {
  text_.reserve(text.size() + 2);
  append_string(text, &text_);
}

JsonText::JsonText(double number) : text_(text_of_number(number)) {}
JsonText::JsonText(float number) : text_(text_of_number(number)) {}

JsonText JsonText::object(std::initializer_list<Member> members) {
  JsonText object(Raw{"{}"});
  for (const Member& member : members) object.put(member.name, member.value);
  return object;
}

void JsonText::put(std::string_view name, const JsonText& value) {
  text_.pop_back();
  if (!text_.ends_with('{')) text_ += ',';
  append_string(name, &text_);
  text_ += ':';
  text_ += value.text_;
  text_ += '}';
}

void JsonText::push_back(const JsonText& value) {
  text_.pop_back();
  if (!text_.ends_with('[')) text_ += ',';
  text_ += value.text_;
  text_ += ']';
}

}  // namespace cria::hosted
