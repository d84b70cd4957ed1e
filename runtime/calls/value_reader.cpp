#include "runtime/calls/value_reader.h"

#include <algorithm>
#include <array>

#include "quant/text/call_format.h"
#include "quant/text/utf8.h"
#include "runtime/json/schema_text.h"

namespace cria::calls {
namespace {

using json::kBehindSurrogates;
using json::kFirstHigh;
using json::kFirstLow;

constexpr uint32_t kLastCharacter = 0x10ffff;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool ends_marked(char c) { return c == ',' || c == '}' || c == ']'; }

bool ends_bare_key(char c) {
  return is_call_blank(c) || c == ':' || c == '=' || c == ')' || ends_marked(c);
}

}  // namespace

size_t Finder::longest_again() const {
  for (size_t n = n_ - 1; n > 0; --n) {
    if (std::equal(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(n),
                   text_.begin() + static_cast<ptrdiff_t>(n_ - n))) {
      return n;
    }
  }
  return 0;
}

void TextWriter::begin(bool is_plain, const Writer* out) {
  *this = {};
  is_plain_ = is_plain;
  if (!is_plain) put(out, '"');
}

void TextWriter::byte(char c, const Writer* out) {
  bytes_[n_bytes_++] = c;
  drain(false, out);
}

void TextWriter::drain(bool is_last, const Writer* out) {
  while (n_bytes_ != 0) {
    const Utf8Char read = decode_utf8(bytes_, n_bytes_);
    if (!read.complete && !is_last) return;
    flush_surrogate(out);
    character(read.code, out);
    std::copy(bytes_ + read.n_bytes, bytes_ + n_bytes_, bytes_);
    n_bytes_ = static_cast<uint8_t>(n_bytes_ - read.n_bytes);
  }
}

void TextWriter::character(uint32_t code, const Writer* out) {
  std::array<char, 6> bytes;
  const size_t n =
      is_plain_ ? json::put_utf8(code, bytes.data()) : json::put_json_character(code, bytes.data());
  for (size_t i = 0; i < n; ++i) put(out, bytes[i]);
}

void TextWriter::flush_surrogate(const Writer* out) {
  if (surrogate_ == 0) return;
  surrogate_ = 0;
  character(kReplacementCharacter, out);
}

void TextWriter::unit(uint32_t code, const Writer* out) {
  drain(true, out);
  const auto is_low = [&code] { return code >= kFirstLow && code < kBehindSurrogates; };
  if (is_low() && surrogate_ != 0) {
    code = json::join_surrogates(surrogate_, code);
    surrogate_ = 0;
  }
  flush_surrogate(out);
  if (code >= kFirstHigh && code < kFirstLow) {
    surrogate_ = code;
    return;
  }
  character(code > kLastCharacter || is_low() ? kReplacementCharacter : code, out);
}

void TextWriter::end(const Writer* out) {
  drain(true, out);
  flush_surrogate(out);
  if (!is_plain_) put(out, '"');
}

enum class ValueReader::State : uint8_t {
  kValue,
  kItem,  // a value, or the end of the list
  kKey,
  kMember,  // a key, or the end of the object
  kColon,
  kAfter,
  kString,
  kEscape,
  kHex,
  kMarkBegin,
  kMarkedString,
  kBareKey,
  kBareString,
  kNumber,
  kWord,
  kDone,
};

// What of a number has come last.
enum class ValueReader::Number : uint8_t {
  kSign,
  kZero,
  kWhole,
  kPoint,
  kFraction,
  kE,
  kPowerSign,
  kPower,
};

void ValueReader::begin(Style style, std::string_view mark, const Writer* out) {
  *this = {};
  style_ = style;
  mark_ = mark;
  state_ = State::kValue;
  if (style == Style::kArguments) static_cast<void>(open(true, out));
}

// A byte that a state leaves is the next state's, until the value is whole.
Step ValueReader::step(char c, const Writer* out) {
  for (;;) {
    const Step step = once(c, out);
    if (step != Step::kAgain || state_ == State::kDone) return step;
  }
}

Step ValueReader::once(char c, const Writer* out) {
  switch (state_) {
    case State::kValue:
    case State::kItem:
      return value(c, out);
    case State::kKey:
    case State::kMember:
      return key(c, out);
    case State::kColon:
      if (is_call_blank(c)) return Step::kMore;
      if (c != (is_arguments() ? '=' : ':')) return Step::kFail;
      put(out, ':');
      state_ = State::kValue;
      return Step::kMore;
    case State::kAfter:
      return after(c, out);
    case State::kString:
      if (c == quote_) return end_string(out);
      if (c == '\\') {
        state_ = State::kEscape;
      } else {
        text_.byte(c, out);
      }
      return Step::kMore;
    case State::kEscape:
      return escape(c, out);
    case State::kHex:
      return hex(c, out);
    case State::kMarkBegin: {
      bool is_other = false;
      if (finder_.step(c, [&is_other](char) { is_other = true; })) return begin_string(0, out);
      return is_other ? Step::kFail : Step::kMore;
    }
    case State::kMarkedString:
      if (finder_.step(c, [this, out](char other) { text_.byte(other, out); })) {
        return end_string(out);
      }
      return Step::kMore;
    case State::kBareKey:
      if (!ends_bare_key(c)) {
        text_.byte(c, out);
        return Step::kMore;
      }
      static_cast<void>(end_string(out));
      return Step::kAgain;
    case State::kBareString:
      if (ends_marked(c)) {
        text_.end(out);
        return finish_before();
      }
      text_.byte(c, out);
      return Step::kMore;
    case State::kNumber:
      return number(c, out);
    case State::kWord:
      return word(c, out);
    case State::kDone:
      break;
  }
  return Step::kFail;
}

bool ValueReader::end(const Writer* out) {
  // A blank is no part of any scalar without quotes.
  if (depth_ == 0 && (state_ == State::kNumber || state_ == State::kWord)) {
    static_cast<void>(step(' ', out));
  }
  return state_ == State::kDone;
}

void ValueReader::put_comma(const Writer* out) {
  if (has_comma_) put(out, ',');
  has_comma_ = false;
}

Step ValueReader::value(char c, const Writer* out) {
  if (is_call_blank(c)) return Step::kMore;
  if (c == ']' && state_ == State::kItem) return close(c, out);
  if (style_ == Style::kPlain && c != '"') return Step::kFail;
  put_comma(out);
  is_key_ = false;
  if (c == '{' || c == '[') return open(c == '{', out);
  if (c == '"' || (c == '\'' && style_ != Style::kJson && style_ != Style::kMarked)) {
    return begin_string(c, out);
  }
  if (!mark_.empty() && c == mark_.front()) return begin_mark();
  if (is_digit(c) || c == '-') {
    put(out, c);
    number_ = c == '-' ? Number::kSign : c == '0' ? Number::kZero : Number::kWhole;
    state_ = State::kNumber;
    return Step::kMore;
  }
  const bool may_be_bare = style_ == Style::kMarked && static_cast<uint8_t>(c) >= 0x80;
  if (!is_letter(c) && !may_be_bare) return Step::kFail;
  n_word_ = 0;
  state_ = State::kWord;
  return Step::kAgain;
}

Step ValueReader::key(char c, const Writer* out) {
  if (is_call_blank(c)) return Step::kMore;
  if (state_ == State::kMember && c == (is_arguments() ? ')' : '}')) return close(c, out);
  put_comma(out);
  is_key_ = true;
  const bool is_python = style_ == Style::kPython || style_ == Style::kArguments;
  if (!is_arguments() && (c == '"' || (c == '\'' && is_python))) return begin_string(c, out);
  if (!mark_.empty() && c == mark_.front()) return begin_mark();
  const bool may_be_bare = is_arguments() || style_ == Style::kMarked;
  if (!may_be_bare || ends_bare_key(c) || c == '(' || c == '"' || c == '\'') return Step::kFail;
  text_.begin(false, out);
  text_.byte(c, out);
  state_ = State::kBareKey;
  return Step::kMore;
}

Step ValueReader::open(bool is_object, const Writer* out) {
  if (depth_ == kMostNesting) return Step::kFail;
  const uint64_t bit = uint64_t{1} << depth_;
  objects_ = is_object ? objects_ | bit : objects_ & ~bit;
  ++depth_;
  put(out, is_object ? '{' : '[');
  state_ = is_object ? State::kMember : State::kItem;
  return Step::kMore;
}

Step ValueReader::close(char c, const Writer* out) {
  put(out, c == ']' ? ']' : '}');
  has_comma_ = false;
  --depth_;
  return finish();
}

Step ValueReader::after(char c, const Writer* out) {
  if (is_call_blank(c)) return Step::kMore;
  if (c == (!is_object() ? ']' : is_arguments() ? ')' : '}')) return close(c, out);
  if (c != ',') return Step::kFail;
  has_comma_ = true;
  const bool may_end = style_ == Style::kPython || style_ == Style::kArguments;
  if (is_object()) {
    state_ = may_end ? State::kMember : State::kKey;
  } else {
    state_ = may_end ? State::kItem : State::kValue;
  }
  return Step::kMore;
}

// Those that nobody knows stand for themselves: models write patterns as they are.
Step ValueReader::escape(char c, const Writer* out) {
  constexpr std::string_view kLetters = "\"\\/'bfnrt";
  constexpr std::string_view kMeanings = "\"\\/'\b\f\n\r\t";
  state_ = State::kString;
  const bool is_python = style_ == Style::kPython || style_ == Style::kArguments;
  const size_t at = kLetters.find(c);
  if (at != std::string_view::npos) {
    text_.unit(static_cast<uint8_t>(kMeanings[at]), out);
  } else if (c == 'u' || (is_python && (c == 'x' || c == 'U'))) {
    code_ = 0;
    n_hex_ = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    state_ = State::kHex;
  } else if (!is_python || c != '\n') {
    text_.unit('\\', out);
    text_.byte(c, out);
  }
  return Step::kMore;
}

Step ValueReader::hex(char c, const Writer* out) {
  const uint32_t digit = json::hex_value(static_cast<uint8_t>(c));
  if (digit > 15) return Step::kFail;
  code_ = code_ << 4 | digit;
  if (--n_hex_ != 0) return Step::kMore;
  text_.unit(code_, out);
  state_ = State::kString;
  return Step::kMore;
}

Step ValueReader::number(char c, const Writer* out) {
  const Number last = number_;
  if (is_digit(c)) {
    if (last == Number::kZero) return Step::kFail;
    number_ = last == Number::kSign    ? (c == '0' ? Number::kZero : Number::kWhole)
              : last == Number::kPoint ? Number::kFraction
              : last >= Number::kE     ? Number::kPower
                                       : last;
  } else if (c == '.' && (last == Number::kZero || last == Number::kWhole)) {
    number_ = Number::kPoint;
  } else if ((c == 'e' || c == 'E') &&
             (last == Number::kZero || last == Number::kWhole || last == Number::kFraction)) {
    number_ = Number::kE;
  } else if ((c == '+' || c == '-') && last == Number::kE) {
    number_ = Number::kPowerSign;
  } else {
    const bool is_whole = last == Number::kZero || last == Number::kWhole ||
                          last == Number::kFraction || last == Number::kPower;
    return is_whole ? finish_before() : Step::kFail;
  }
  put(out, c);
  return Step::kMore;
}

Step ValueReader::word(char c, const Writer* out) {
  const bool is_marked = style_ == Style::kMarked;
  if (is_marked ? !ends_marked(c) : is_letter(c)) {
    if (n_word_ < sizeof word_) {
      word_[n_word_++] = c;
      return Step::kMore;
    }
    if (!is_marked) return Step::kFail;
  } else if (put_word(out)) {
    return finish_before();
  }
  if (!is_marked) return Step::kFail;
  text_.begin(false, out);
  for (size_t i = 0; i < n_word_; ++i) text_.byte(word_[i], out);
  state_ = State::kBareString;
  return Step::kAgain;
}

bool ValueReader::put_word(const Writer* out) {
  struct Word {
    std::string_view read, written;
  };
  constexpr Word kWords[] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                             {"True", "true"}, {"False", "false"}, {"None", "null"}};
  constexpr size_t kOfJson = 3;
  const size_t n = style_ == Style::kJson ? kOfJson : std::size(kWords);
  for (size_t i = 0; i < n; ++i) {
    if (kWords[i].read != without_blanks({word_, n_word_})) continue;
    for (const char c : kWords[i].written) put(out, c);
    return true;
  }
  return false;
}

Step ValueReader::begin_mark() {
  finder_.begin(mark_);
  state_ = State::kMarkBegin;
  return Step::kAgain;
}

Step ValueReader::begin_string(char quote, const Writer* out) {
  quote_ = quote;
  text_.begin(style_ == Style::kPlain, out);
  state_ = quote == 0 ? State::kMarkedString : State::kString;
  if (quote == 0) finder_.begin(mark_);
  return Step::kMore;
}

Step ValueReader::end_string(const Writer* out) {
  text_.end(out);
  if (!is_key_) return finish();
  state_ = State::kColon;
  return Step::kMore;
}

Step ValueReader::finish() {
  state_ = depth_ == 0 ? State::kDone : State::kAfter;
  return depth_ == 0 ? Step::kWhole : Step::kMore;
}

Step ValueReader::finish_before() {
  static_cast<void>(finish());
  return Step::kAgain;
}

}  // namespace cria::calls
