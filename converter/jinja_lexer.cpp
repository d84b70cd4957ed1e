#include "converter/jinja_lexer.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "quant/unicode.h"
#include "quant/utf8.h"

namespace cria::converter {
namespace {

constexpr std::string_view kBlank = " \t\n\r\v\f";

bool is_blank(char c) { return kBlank.find(c) != std::string_view::npos; }

std::string one_newline(std::string_view jinja) {
  std::string text;
  for (size_t i = 0; i < jinja.size(); ++i) {
    if (jinja[i] == '\r') {
      text += '\n';
      if (i + 1 < jinja.size() && jinja[i + 1] == '\n') ++i;
    } else {
      text += jinja[i];
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void add_utf8(uint32_t code, std::string* text) {
  constexpr uint32_t kMost = 0x10ffff;
  if (code > kMost || (code >= 0xd800 && code < 0xe000)) {
    throw std::runtime_error("a string has an escape that is no character");
  }
  const auto put = [text](uint32_t byte) { *text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

// The escapes of Python's strings. at: behind the backslash; moves behind the escape.
void add_escape(std::string_view source, size_t* at, std::string* text) {
  const char c = source[(*at)++];
  const auto digits = [&](size_t least, size_t most, uint32_t base) {
    uint32_t value = 0;
    size_t n = 0;
    for (; n < most && *at < source.size(); ++n, ++*at) {
      const char d = source[*at];
      const uint32_t digit = d >= '0' && d <= '9'   ? static_cast<uint32_t>(d - '0')
                             : d >= 'a' && d <= 'f' ? static_cast<uint32_t>(d - 'a' + 10)
                             : d >= 'A' && d <= 'F' ? static_cast<uint32_t>(d - 'A' + 10)
                                                    : base;
      if (digit >= base) break;
      value = value * base + digit;
    }
    if (n < least) throw std::runtime_error("a string has a broken escape");
    add_utf8(value, text);
  };
  constexpr std::string_view kNames = "abfnrtv\\'\"";
  constexpr std::string_view kBytes = "\a\b\f\n\r\t\v\\'\"";
  if (const size_t known = kNames.find(c); known != std::string_view::npos) {
    *text += kBytes[known];
  } else if (c == 'x') {
    digits(2, 2, 16);
  } else if (c == 'u') {
    digits(4, 4, 16);
  } else if (c == 'U') {
    digits(8, 8, 16);
  } else if (c >= '0' && c <= '7') {
    --*at;
    digits(1, 3, 8);
  } else if (c == 'N') {
    throw std::runtime_error("a string names a character");
  } else if (c != '\n') {
    *text += '\\';
    *text += c;
  }
}

// A literal that begins with the quote at *at, which moves behind it.
std::string read_literal(std::string_view source, size_t* at) {
  const char quote = source[(*at)++];
  std::string text;
  while (*at < source.size() && source[*at] != quote) {
    if (source[*at] != '\\') {
      text += source[(*at)++];
    } else if (++*at < source.size()) {
      add_escape(source, at, &text);
    }
  }
  if (*at == source.size()) throw std::runtime_error("a string does not end");
  ++*at;
  return text;
}

// Reads templates from the left as Jinja2's lexer does.
class Lexer {
 public:
  explicit Lexer(std::string_view jinja) : source_(one_newline(jinja)) {}

  JinjaParts run() {
    for (;;) {
      const size_t begin = find_tag();
      if (begin == std::string::npos) break;
      take_text(begin);
      at_ = begin + 2;
      const char sign = at_ < source_.size() ? source_[at_] : '\0';
      if (sign == '-' || sign == '+') ++at_;
      if (kind_ == JinjaTagKind::kComment) {
        skip_comment();
      } else {
        read_tag();
      }
    }
    parts_.texts.push_back(pending_ + source_.substr(at_));
    return std::move(parts_);
  }

 private:
  size_t find_tag() {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] != '{') continue;
      const char c = source_[i + 1];
      kind_ = c == '{'   ? JinjaTagKind::kExpression
              : c == '%' ? JinjaTagKind::kBlock
              : c == '#' ? JinjaTagKind::kComment
                         : JinjaTagKind::kNone;
      if (kind_ != JinjaTagKind::kNone) return i;
    }
    return std::string::npos;
  }

  // The text before the tag at begin, without the white space that the tag takes.
  void take_text(size_t begin) {
    std::string text = source_.substr(at_, begin - at_);
    const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    if (sign == '-') {
      const size_t last = text.find_last_not_of(kBlank);
      text.resize(last == std::string::npos ? 0 : last + 1);
    } else if (sign != '+' && kind_ != JinjaTagKind::kExpression) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string::npos ? 0 : newline + 1;
      const bool is_indent = text.find_first_not_of(kBlank, line) == std::string::npos;
      if (is_indent && (line > 0 || starts_line_)) text.resize(line);
    }
    check_edge(text, sign);
    pending_ += text;
  }

  // Jinja2 takes all of Unicode's white space away where only these are known here.
  void check_edge(const std::string& text, char sign) const {
    if (sign == '+' || (sign != '-' && kind_ == JinjaTagKind::kExpression)) return;
    const size_t newline = text.rfind('\n');
    const bool begins_line = newline != std::string::npos || starts_line_;
    bool ends_odd = false;
    bool is_indent = begins_line;
    for (size_t i = newline == std::string::npos ? 0 : newline + 1; i < text.size();) {
      const Utf8Char c = decode_utf8(text.data() + i, text.size() - i);
      ends_odd = is_stripped(c.code) && !is_blank(text[i]);
      is_indent = is_indent && is_stripped(c.code);
      i += c.n_bytes;
    }
    if (ends_odd && (sign == '-' || is_indent)) refuse_blank();
  }

  [[noreturn]] static void refuse_blank() {
    throw std::runtime_error("white space of an unusual kind stands beside a tag");
  }

  // Moves behind the end of a tag, which has n characters at at_, and the white space it takes.
  void end_tag(size_t n, bool takes_newline = true) {
    const char sign = source_[at_];
    at_ += n;
    if (sign == '-') {
      at_ = std::min(source_.find_first_not_of(kBlank, at_), source_.size());
      if (at_ < source_.size() &&
          is_stripped(decode_utf8(source_.data() + at_, source_.size() - at_).code)) {
        refuse_blank();
      }
    } else if (takes_newline && sign != '+' && kind_ != JinjaTagKind::kExpression &&
               at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
    starts_line_ = source_[at_ - 1] == '\n';
  }

  // Characters of the tag's end at at_: 2, 3 with a sign, or 0.
  [[nodiscard]] size_t end_at(size_t at, std::string_view end) const {
    if (source_.compare(at, end.size(), end) == 0) return end.size();
    if (at >= source_.size() || (source_[at] != '-' && source_[at] != '+')) return 0;
    if (source_[at] == '+' && kind_ == JinjaTagKind::kExpression) return 0;
    return source_.compare(at + 1, end.size(), end) == 0 ? end.size() + 1 : 0;
  }

  void skip_comment() {
    size_t at = source_.find("#}", at_);
    if (at == std::string::npos) throw std::runtime_error("a comment does not end");
    if (at > at_ && (source_[at - 1] == '-' || source_[at - 1] == '+')) --at;
    at_ = at;
    end_tag(end_at(at, "#}"));
  }

  void read_tag() {
    const std::string_view end = kind_ == JinjaTagKind::kExpression ? "}}" : "%}";
    JinjaTag tag = {kind_, {}};
    size_t depth = 0;
    bool after_blank = false;
    for (;;) {
      if (at_ >= source_.size()) throw std::runtime_error("a tag does not end");
      const char c = source_[at_];
      if (is_blank(c)) {
        ++at_;
        after_blank = true;
        continue;
      }
      if (const size_t n = end_at(at_, end); n > 0 && depth == 0) {
        end_tag(n, !is_raw(tag));
        break;
      }
      tag.tokens.push_back({{}, c == '\'' || c == '"', after_blank});
      std::string* text = &tag.tokens.back().text;
      after_blank = false;
      if (c == '\'' || c == '"') {
        *text = read_literal(source_, &at_);
        continue;
      }
      size_t n = 1;
      if (is_jinja_word(c)) {
        while (at_ + n < source_.size() && is_jinja_word(source_[at_ + n])) ++n;
      }
      *text = source_.substr(at_, n);
      at_ += n;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
      if (depth > kMaxJinjaNesting) throw std::runtime_error("brackets are nested too deep");
    }
    if (is_raw(tag)) {
      take_raw();
      return;
    }
    parts_.texts.push_back(std::move(pending_));
    pending_.clear();
    parts_.tags.push_back(std::move(tag));
  }

  // What begins a raw block keeps the newline behind it.
  [[nodiscard]] static bool is_raw(const JinjaTag& tag) {
    return tag.kind == JinjaTagKind::kBlock && tag.tokens.size() == 1 &&
           tag.tokens[0].text == "raw";
  }

  void take_raw() {
    size_t at = at_;
    for (;;) {
      at = source_.find("{%", at);
      if (at == std::string::npos) throw std::runtime_error("a raw block does not end");
      size_t word = at + 2;
      if (word < source_.size() && (source_[word] == '-' || source_[word] == '+')) ++word;
      word = std::min(source_.find_first_not_of(kBlank, word), source_.size());
      if (source_.compare(word, 6, "endraw") == 0) {
        take_text(at);
        at_ = std::min(source_.find_first_not_of(kBlank, word + 6), source_.size());
        const size_t n = end_at(at_, "%}");
        if (n == 0) throw std::runtime_error("a raw block does not end");
        end_tag(n);
        return;
      }
      at += 2;
    }
  }

  std::string source_;
  size_t at_ = 0;
  JinjaTagKind kind_ = JinjaTagKind::kNone;
  bool starts_line_ = true;
  std::string pending_;
  JinjaParts parts_;
};

}  // namespace

JinjaParts read_jinja(std::string_view jinja) { return Lexer(jinja).run(); }

bool is_jinja_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_jinja(const JinjaTokens& tokens, size_t i, std::string_view text) {
  return i < tokens.size() && !tokens[i].is_literal && tokens[i].text == text;
}

bool is_jinja_name(const JinjaTokens& tokens, size_t i) {
  return i < tokens.size() && !tokens[i].is_literal && is_jinja_word(tokens[i].text[0]) &&
         !(tokens[i].text[0] >= '0' && tokens[i].text[0] <= '9');
}

bool is_jinja_literal(const JinjaTokens& tokens, size_t i) {
  return i < tokens.size() && tokens[i].is_literal;
}

}  // namespace cria::converter
