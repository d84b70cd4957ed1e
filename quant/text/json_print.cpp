#include "quant/text/json_print.h"

#include <algorithm>
#include <string_view>

#include "quant/text/utf8.h"

namespace cria {
namespace {

using format::ChatValueForm;
using format::ChatValueStyle;
using Text = std::span<const char>;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t skip_space(Text text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

constexpr uint32_t kNoHex = 16;
uint32_t hex_of(char c) {
  if (is_digit(c)) return static_cast<uint32_t>(c - '0');
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? static_cast<uint32_t>(lower - 'a' + 10) : kNoHex;
}

// After the string that begins at at; 0: it is none.
size_t string_end(Text text, size_t at) {
  if (at >= text.size() || text[at] != '"') return 0;
  for (++at; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') return at + 1;
    if (static_cast<uint8_t>(c) < 0x20) return 0;
    if (c != '\\') continue;
    if (++at == text.size()) return 0;
    if (text[at] == 'u') {
      for (int i = 0; i < 4; ++i) {
        if (++at == text.size() || hex_of(text[at]) == kNoHex) return 0;
      }
    } else if (std::string_view("\"\\/bfnrt").find(text[at]) == std::string_view::npos) {
      return 0;
    }
  }
  return 0;
}

size_t digits_end(Text text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

size_t number_end(Text text, size_t at) {
  if (at < text.size() && text[at] == '-') ++at;
  const size_t whole = digits_end(text, at);
  if (whole == at || (text[at] == '0' && whole > at + 1)) return 0;
  at = whole;
  if (at < text.size() && text[at] == '.') {
    const size_t end = digits_end(text, at + 1);
    if (end == at + 1) return 0;
    at = end;
  }
  if (at < text.size() && (text[at] | 0x20) == 'e') {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const size_t end = digits_end(text, at);
    if (end == at) return 0;
    at = end;
  }
  return at;
}

size_t word_end(Text text, size_t at) {
  const std::string_view rest(text.data() + at, text.size() - at);
  for (const std::string_view word : {"true", "false", "null"}) {
    const bool is_word =
        rest.size() >= word.size() && std::equal(word.begin(), word.end(), rest.begin());
    if (is_word) return at + word.size();
  }
  return 0;
}

// After the string, number or word at at; 0: it is none.
size_t scalar_end(Text text, size_t at) {
  if (at >= text.size()) return 0;
  if (text[at] == '"') return string_end(text, at);
  return text[at] == '-' || is_digit(text[at]) ? number_end(text, at) : word_end(text, at);
}

// After a valid value.
size_t value_end(Text text, size_t at) {
  uint32_t depth = 0;
  do {
    at = skip_space(text, at);
    const char c = text[at];
    if (c == '{' || c == '[') {
      ++depth;
      ++at;
    } else if (c == '}' || c == ']') {
      --depth;
      ++at;
    } else if (c == ',' || c == ':') {
      ++at;
    } else {
      at = scalar_end(text, at);
    }
  } while (depth > 0);
  return at;
}

// A character of a string's inside; \u escapes of pairs are one. Lone surrogates are U+FFFD.
struct Character {
  uint32_t code;
  size_t n_bytes;
};

uint32_t four_hex(Text text, size_t at) {
  uint32_t code = 0;
  for (size_t i = at; i < at + 4; ++i) code = code << 4 | hex_of(text[i]);
  return code;
}

Character escaped_character(Text text) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr char kMeanings[] = "\"\\/\b\f\n\r\t";
  constexpr size_t kEscape = 6;
  if (text[1] != 'u') return {static_cast<uint32_t>(kMeanings[kLetters.find(text[1])]), 2};
  const uint32_t code = four_hex(text, 2);
  if (code < 0xd800 || code > 0xdfff) return {code, kEscape};
  if (code < 0xdc00 && text.size() >= 2 * kEscape && text[kEscape] == '\\' &&
      text[kEscape + 1] == 'u') {
    const uint32_t low = four_hex(text, kEscape + 2);
    if (low >= 0xdc00 && low <= 0xdfff) {
      return {0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), 2 * kEscape};
    }
  }
  return {kReplacementCharacter, kEscape};
}

class Printer {
 public:
  Printer(const ChatValueStyle& style, TextSink* sink) : style_(style), sink_(*sink) {}

  void value(Text text);
  // is_escaped: text is what stands between the quotes of a JSON string.
  void string(Text text, bool is_escaped);

 private:
  void put(std::string_view text) { sink_.put({text.data(), text.size()}); }
  void put_code(uint32_t code);
  void put_hex(std::string_view prefix, uint32_t code, uint32_t n_digits);
  void put_json_character(uint32_t code);
  void put_python_character(uint32_t code, char quote);
  void line(uint32_t depth);
  void number(Text text);
  void separator(std::string_view sign, uint32_t depth);
  [[nodiscard]] bool is_python() const { return style_.form == ChatValueForm::kPython; }

  template <typename Visit>
  static void each_character(Text text, bool is_escaped, const Visit& visit) {
    while (!text.empty()) {
      Character c = {0, 0};
      if (is_escaped && text[0] == '\\') {
        c = escaped_character(text);
      } else {
        const Utf8Char read = decode_utf8(text.data(), text.size());
        c = {read.code, read.n_bytes};
      }
      visit(c.code);
      text = text.subspan(c.n_bytes);
    }
  }

  const ChatValueStyle& style_;
  TextSink& sink_;
};

void Printer::put_code(uint32_t code) {
  char bytes[4];
  size_t n = 0;
  const auto add = [&](uint32_t byte) { bytes[n++] = static_cast<char>(byte); };
  const auto more = [&](uint32_t shift) { add(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
    more(0);
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    more(6);
    more(0);
  } else {
    add(0xf0 | code >> 18);
    more(12);
    more(6);
    more(0);
  }
  sink_.put({bytes, n});
}

void Printer::put_hex(std::string_view prefix, uint32_t code, uint32_t n_digits) {
  constexpr uint32_t kMostDigits = 8;
  char digits[kMostDigits];
  for (uint32_t i = 0; i < n_digits; ++i) {
    digits[i] = "0123456789abcdef"[code >> (4 * (n_digits - 1 - i)) & 0xf];
  }
  put(prefix);
  sink_.put({digits, n_digits});
}

// string_view's own substr checks, and brings exceptions into an image of a board.
std::string_view part(std::string_view text, size_t begin, size_t end) {
  return {text.data() + begin, end - begin};
}

void Printer::put_json_character(uint32_t code) {
  constexpr std::string_view kControls = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  const size_t found = code < 0x80 ? kControls.find(static_cast<char>(code)) : kControls.npos;
  if (found != std::string_view::npos) {
    put("\\");
    put(part(kLetters, found, found + 1));
  } else if (code >= 0x10000 && (style_.flags & format::kChatEscapes) != 0) {
    put_hex("\\u", 0xd800 + ((code - 0x10000) >> 10), 4);
    put_hex("\\u", 0xdc00 + ((code - 0x10000) & 0x3ff), 4);
  } else if (code < 0x20 || (code >= 0x80 && (style_.flags & format::kChatEscapes) != 0)) {
    put_hex("\\u", code, 4);
  } else {
    put_code(code);
  }
}

// What Python takes for a character that cannot be seen: controls, formats, private use and white
// space other than U+0020. Those that Unicode has not given out count as seen.
bool is_hidden(uint32_t code) {
  constexpr struct {
    uint32_t first;
    uint32_t last;
  } kRanges[] = {{0x00, 0x1f},     {0x7f, 0xa0},     {0xad, 0xad},       {0x600, 0x605},
                 {0x61c, 0x61c},   {0x6dd, 0x6dd},   {0x70f, 0x70f},     {0x890, 0x891},
                 {0x8e2, 0x8e2},   {0x1680, 0x1680}, {0x180e, 0x180e},   {0x2000, 0x200f},
                 {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000},   {0xe000, 0xf8ff},
                 {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xe0000, 0x10ffff}};
  return std::any_of(std::begin(kRanges), std::end(kRanges), [code](const auto& range) {
    return code >= range.first && code <= range.last;
  });
}

void Printer::put_python_character(uint32_t code, char quote) {
  constexpr std::string_view kControls = "\\\n\r\t";
  constexpr std::string_view kLetters = "\\nrt";
  const size_t found = code < 0x80 ? kControls.find(static_cast<char>(code)) : kControls.npos;
  if (found != std::string_view::npos) {
    put("\\");
    put(part(kLetters, found, found + 1));
  } else if (code == static_cast<uint32_t>(quote)) {
    put("\\");
    put_code(code);
  } else if (!is_hidden(code)) {
    put_code(code);
  } else if (code < 0x100) {
    put_hex("\\x", code, 2);
  } else if (code < 0x10000) {
    put_hex("\\u", code, 4);
  } else {
    put_hex("\\U", code, 8);
  }
}

void Printer::string(Text text, bool is_escaped) {
  const auto put_bare = [this](uint32_t code) { put_code(code); };
  switch (style_.form) {
    case ChatValueForm::kBare:
      if (!is_escaped) return sink_.put(text);
      return each_character(text, is_escaped, put_bare);
    case ChatValueForm::kQuoted:
    case ChatValueForm::kSingleQuoted: {
      const std::string_view quote = style_.form == ChatValueForm::kQuoted ? "\"" : "'";
      put(quote);
      each_character(text, is_escaped, put_bare);
      return put(quote);
    }
    case ChatValueForm::kPython: {
      bool has_single = false;
      bool has_double = false;
      each_character(text, is_escaped, [&](uint32_t code) {
        has_single |= code == '\'';
        has_double |= code == '"';
      });
      const char quote = has_single && !has_double ? '"' : '\'';
      put({&quote, 1});
      each_character(text, is_escaped, [&](uint32_t code) { put_python_character(code, quote); });
      return put({&quote, 1});
    }
    case ChatValueForm::kJson:
    case ChatValueForm::kTags:  // of whole tools
    case ChatValueForm::kMembers:
      break;
  }
  put("\"");
  each_character(text, is_escaped, [this](uint32_t code) { put_json_character(code); });
  put("\"");
}

// As Python writes the float that has these digits, which stay as they are.
void Printer::number(Text text) {
  const std::string_view view(text.data(), text.size());
  if (view == "-0") return put("0");
  if (view.find_first_of(".eE") == std::string_view::npos) return put(view);
  const bool is_negative = view[0] == '-';
  const size_t begin = is_negative ? 1 : 0;
  const size_t e = std::min(view.find_first_of("eE"), view.size());
  constexpr int kMostExponent = 1 << 20;
  int exponent = 0;
  for (const char c : part(view, std::min(e + 1, view.size()), view.size())) {
    if (is_digit(c)) exponent = std::min(exponent * 10 + (c - '0'), kMostExponent);
  }
  if (e + 1 < view.size() && view[e + 1] == '-') exponent = -exponent;
  const std::string_view mantissa = part(view, begin, e);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  // Digits without the point, from the first to the last that is no zero.
  const size_t first = mantissa.find_first_of("123456789");
  if (is_negative) put("-");
  if (first == std::string_view::npos) return put("0.0");
  const size_t last = mantissa.find_last_of("123456789");
  const auto put_digits = [&](size_t from, size_t to) {
    if (from <= point && point < to) {
      put(part(mantissa, from, point));
      put(part(mantissa, point + 1, to));
    } else {
      put(part(mantissa, from, to));
    }
  };
  const auto zeros = [this](int n) {
    for (; n > 0; --n) put("0");
  };
  const size_t last_end = last + 1;
  const int n_digits = static_cast<int>(last_end - first) - (first < point && point < last ? 1 : 0);
  // The value is 0.DIGITS times ten to the power of shift.
  const int shift = exponent + (first < point ? static_cast<int>(point - first)
                                              : -static_cast<int>(first - point - 1));
  constexpr int kLeastShift = -3;
  constexpr int kMostShift = 16;
  const auto behind = [&](int n) {  // the place after the first n digits
    size_t at = first;
    for (int seen = 0; seen < n; ++at) seen += mantissa[at] != '.' ? 1 : 0;
    return at;
  };
  if (shift < kLeastShift || shift > kMostShift) {
    put_digits(first, behind(1));
    if (n_digits > 1) {
      put(".");
      put_digits(behind(1), last_end);
    }
    const int power = shift - 1;
    put(power < 0 ? "e-" : "e+");
    char digits[8];
    size_t n = 0;
    for (int rest = power < 0 ? -power : power; rest > 0 || n < 2; rest /= 10) {
      digits[n++] = static_cast<char>('0' + rest % 10);
    }
    while (n > 0) put({&digits[--n], 1});
  } else if (shift <= 0) {
    put("0.");
    zeros(-shift);
    put_digits(first, last_end);
  } else if (shift >= n_digits) {
    put_digits(first, last_end);
    zeros(shift - n_digits);
    put(".0");
  } else {
    put_digits(first, behind(shift));
    put(".");
    put_digits(behind(shift), last_end);
  }
}

void Printer::line(uint32_t depth) {
  put("\n");
  for (uint32_t i = 0; i < (depth + style_.depth) * style_.indent; ++i) put(" ");
}

void Printer::separator(std::string_view sign, uint32_t depth) {
  put(sign);
  if (style_.indent > 0 && sign == ",") {
    line(depth);
  } else if ((style_.flags & format::kChatTight) == 0) {
    put(" ");
  }
}

void Printer::value(Text text) {
  uint32_t depth = 0;
  for (size_t at = skip_space(text, 0); at < text.size(); at = skip_space(text, at)) {
    const char c = text[at];
    const std::string_view sign(&text[at], 1);
    if (c == '{' || c == '[') {
      put(sign);
      at = skip_space(text, at + 1);
      if (text[at] == '}' || text[at] == ']') {
        put({&text[at++], 1});
      } else if (++depth; style_.indent > 0) {
        line(depth);
      }
    } else if (c == '}' || c == ']') {
      --depth;
      if (style_.indent > 0) line(depth);
      put(sign);
      ++at;
    } else if (c == ',' || c == ':') {
      separator(sign, depth);
      ++at;
    } else {
      const size_t end = scalar_end(text, at);
      const Text scalar = text.subspan(at, end - at);
      if (c == '"') {
        string(scalar.subspan(1, scalar.size() - 2), true);
      } else if (c == '-' || is_digit(c)) {
        number(scalar);
      } else if (is_python()) {
        put(c == 't' ? "True" : c == 'f' ? "False" : "None");
      } else {
        put({scalar.data(), scalar.size()});
      }
      at = end;
    }
  }
}

}  // namespace

bool is_json_object(Text text) {
  static_assert(kMaxJsonDepth <= 32);
  uint32_t objects = 0;  // a bit a level
  uint32_t depth = 0;
  size_t at = skip_space(text, 0);
  if (at == text.size() || text[at] != '{') return false;
  const auto member = [&] {  // a key and its colon
    at = string_end(text, skip_space(text, at));
    if (at == 0) return false;
    at = skip_space(text, at);
    return at < text.size() && text[at++] == ':';
  };
  for (;;) {
    // A value begins here.
    at = skip_space(text, at);
    if (at == text.size()) return false;
    if (text[at] == '{' || text[at] == '[') {
      if (depth == kMaxJsonDepth) return false;
      const bool is_object = text[at] == '{';
      objects = is_object ? objects | 1U << depth : objects & ~(1U << depth);
      ++depth;
      at = skip_space(text, at + 1);
      if (at == text.size()) return false;
      if (text[at] != (is_object ? '}' : ']')) {
        if (is_object && !member()) return false;
        continue;
      }
    } else {
      at = scalar_end(text, at);
      if (at == 0) return false;
    }
    // A value ended here, or everything in its list or object is to be closed.
    for (;;) {
      if (depth == 0) return false;
      at = skip_space(text, at);
      if (at == text.size()) return false;
      const bool is_object = (objects >> (depth - 1) & 1) != 0;
      if (text[at] == ',') {
        ++at;
        if (is_object && !member()) return false;
        break;
      }
      if (text[at] != (is_object ? '}' : ']')) return false;
      ++at;
      if (--depth == 0) return skip_space(text, at) == text.size();
    }
  }
}

JsonMembers::JsonMembers(Text object) : rest_(object.subspan(skip_space(object, 0) + 1)) {}

bool JsonMembers::next(Text* key, Text* value) {
  size_t at = skip_space(rest_, 0);
  if (rest_[at] == ',') at = skip_space(rest_, at + 1);
  if (rest_[at] == '}') return false;
  const size_t key_end = string_end(rest_, at);
  *key = rest_.subspan(at, key_end - at);
  const size_t begin = skip_space(rest_, skip_space(rest_, key_end) + 1);
  const size_t end = value_end(rest_, begin);
  *value = rest_.subspan(begin, end - begin);
  rest_ = rest_.subspan(end);
  return true;
}

bool is_json_name(Text string, const char* name) {
  return std::string_view(string.data() + 1, string.size() - 2) == name;
}

void print_json(Text value, const ChatValueStyle& style, TextSink* sink) {
  ChatValueStyle inner = style;
  if (value[0] != '"' && style.form > ChatValueForm::kPython) inner.form = ChatValueForm::kJson;
  Printer(inner, sink).value(value);
}

void print_string(Text text, const ChatValueStyle& style, TextSink* sink) {
  Printer(style, sink).string(text, false);
}

}  // namespace cria
