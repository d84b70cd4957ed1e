// A value that is read byte by byte, and written as JSON: from JSON, Python, or objects whose keys
// have no quotes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cria::calls {

enum class Step : uint8_t {
  kMore,
  kWhole,      // with this byte
  kAgain,      // the value was whole before this byte, which nobody has taken
  kFail,       // nothing that is understood
  kUndecided,  // what comes first must be known; the byte is not taken
};

// Where bytes are written. Null stands for one that drops them.
struct Writer {
  void (*put)(void* context, char c);
  void* context;
};

inline void put(const Writer* out, char c) {
  if (out != nullptr) out->put(out->context, c);
}

// Finds a text in bytes that come one by one.
class Finder {
 public:
  void begin(std::string_view text) {
    text_ = text;
    n_ = 0;
  }
  [[nodiscard]] bool is_between() const { return n_ != 0; }

  // True when c ends the text. other gets the bytes that turned out to be no part of it.
  template <typename Other>
  bool step(char c, const Other& other) {
    while (text_[n_] != c) {
      if (n_ == 0) {
        other(c);
        return false;
      }
      const size_t kept = longest_again();
      for (size_t i = 0; i < n_ - kept; ++i) other(text_[i]);
      n_ = kept;
    }
    return ++n_ == text_.size();
  }

 private:
  // The longest beginning that the n_ bytes end with, but for themselves.
  [[nodiscard]] size_t longest_again() const;

  std::string_view text_;
  size_t n_ = 0;
};

enum class Style : uint8_t {
  kJson,
  kPython,     // strings in '', True, False, None, a comma at the end
  kArguments,  // the same, from after the ( of a call: key=value, ...)
  kMarked,     // strings between marks or without, keys without quotes
  kPlain,      // a string of JSON, of which the characters are written
};

// Objects and lists may nest so deep.
inline constexpr uint32_t kMostNesting = 64;

// Writes text as a string of JSON, or plainly; bytes that are no UTF-8 as U+FFFD.
class TextWriter {
 public:
  void begin(bool is_plain, const Writer* out);
  void byte(char c, const Writer* out);
  // A unit of UTF-16, or a character.
  void unit(uint32_t code, const Writer* out);
  void end(const Writer* out);

 private:
  void drain(bool is_last, const Writer* out);
  void character(uint32_t code, const Writer* out);
  void flush_surrogate(const Writer* out);

  uint32_t surrogate_;
  char bytes_[4];
  uint8_t n_bytes_;
  bool is_plain_;
};

class ValueReader {
 public:
  // mark: of kMarked.
  void begin(Style style, std::string_view mark, const Writer* out);
  // kMore, kWhole, kAgain or kFail.
  Step step(char c, const Writer* out);
  // The bytes end here. True when the value is whole.
  bool end(const Writer* out);

 private:
  enum class State : uint8_t;
  enum class Number : uint8_t;

  [[nodiscard]] bool is_arguments() const { return style_ == Style::kArguments && depth_ == 1; }
  [[nodiscard]] bool is_object() const { return (objects_ >> (depth_ - 1) & 1) != 0; }
  Step once(char c, const Writer* out);
  Step value(char c, const Writer* out);
  Step key(char c, const Writer* out);
  Step open(bool is_object, const Writer* out);
  Step close(char c, const Writer* out);
  Step after(char c, const Writer* out);
  Step escape(char c, const Writer* out);
  Step hex(char c, const Writer* out);
  Step number(char c, const Writer* out);
  Step word(char c, const Writer* out);
  Step begin_mark();
  Step begin_string(char quote, const Writer* out);
  Step end_string(const Writer* out);
  Step finish();
  // The scalar is whole, and the byte no part of it.
  Step finish_before();
  bool put_word(const Writer* out);
  void put_comma(const Writer* out);

  uint64_t objects_;  // bit i: what is open at depth i + 1 is an object
  std::string_view mark_;
  Finder finder_;
  TextWriter text_;
  uint32_t code_;  // of an escape
  uint32_t depth_;
  State state_;
  Style style_;
  Number number_;
  char quote_;
  char word_[8];
  uint8_t n_word_;
  uint8_t n_hex_;
  bool is_key_;
  bool has_comma_;  // which the next value or key writes
};

}  // namespace cria::calls
