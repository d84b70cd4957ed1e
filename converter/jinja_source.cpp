#include "converter/jinja_source.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace cria::converter {
namespace {

constexpr std::string_view kBlank = " \t\n\r\v\f";
constexpr std::string_view kIndent = " \t";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_blank(char c) { return kBlank.find(c) != std::string_view::npos; }

enum class TagKind { kNone, kExpression, kBlock, kComment };

// A token of a tag: a word, a number, a string literal or one character.
struct JinjaToken {
  std::string text;
  bool is_literal;
  bool after_blank;
};
using Tokens = std::vector<JinjaToken>;

struct Tag {
  TagKind kind;
  Tokens tokens;
};

// A template cut into texts, white space settled, and tags: texts[i] stands before tags[i].
struct Parts {
  std::vector<std::string> texts;
  std::vector<Tag> tags;
};

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

std::string written_literal(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + "'";
}

// Reads templates from the left as Jinja2's lexer does.
class Lexer {
 public:
  explicit Lexer(std::string_view jinja) : source_(one_newline(jinja)) {}

  Parts run() {
    for (;;) {
      const size_t begin = find_tag();
      if (begin == std::string::npos) break;
      take_text(begin);
      at_ = begin + 2;
      const char sign = at_ < source_.size() ? source_[at_] : '\0';
      if (sign == '-' || sign == '+') ++at_;
      if (kind_ == TagKind::kComment) {
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
      kind_ = c == '{'   ? TagKind::kExpression
              : c == '%' ? TagKind::kBlock
              : c == '#' ? TagKind::kComment
                         : TagKind::kNone;
      if (kind_ != TagKind::kNone) return i;
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
    } else if (sign != '+' && kind_ != TagKind::kExpression) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string::npos ? 0 : newline + 1;
      const bool is_indent = text.find_first_not_of(kBlank, line) == std::string::npos;
      if (is_indent && (line > 0 || starts_line_)) text.resize(line);
    }
    pending_ += text;
  }

  // Moves behind the end of a tag, which has n characters at at_, and the white space it takes.
  void end_tag(size_t n) {
    const char sign = source_[at_];
    at_ += n;
    if (sign == '-') {
      at_ = std::min(source_.find_first_not_of(kBlank, at_), source_.size());
    } else if (sign != '+' && kind_ != TagKind::kExpression && at_ < source_.size() &&
               source_[at_] == '\n') {
      ++at_;
    }
    starts_line_ = source_[at_ - 1] == '\n';
  }

  // Characters of the tag's end at at_: 2, 3 with a sign, or 0.
  [[nodiscard]] size_t end_at(size_t at, std::string_view end) const {
    if (source_.compare(at, end.size(), end) == 0) return end.size();
    if (at >= source_.size() || (source_[at] != '-' && source_[at] != '+')) return 0;
    if (source_[at] == '+' && kind_ == TagKind::kExpression) return 0;
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
    const std::string_view end = kind_ == TagKind::kExpression ? "}}" : "%}";
    Tag tag = {kind_, {}};
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
        end_tag(n);
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
      if (is_word(c)) {
        while (at_ + n < source_.size() && is_word(source_[at_ + n])) ++n;
      }
      *text = source_.substr(at_, n);
      at_ += n;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
      if (depth > kMaxJinjaNesting) throw std::runtime_error("brackets are nested too deep");
    }
    if (kind_ == TagKind::kBlock && tag.tokens.size() == 1 && tag.tokens[0].text == "raw") {
      take_raw();
      return;
    }
    parts_.texts.push_back(std::move(pending_));
    pending_.clear();
    parts_.tags.push_back(std::move(tag));
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
  TagKind kind_ = TagKind::kNone;
  bool starts_line_ = true;
  std::string pending_;
  Parts parts_;
};

bool is_text(const Tokens& tokens, size_t i, std::string_view text) {
  return i < tokens.size() && !tokens[i].is_literal && tokens[i].text == text;
}

bool is_name(const Tokens& tokens, size_t i) {
  return i < tokens.size() && !tokens[i].is_literal && is_word(tokens[i].text[0]) &&
         !(tokens[i].text[0] >= '0' && tokens[i].text[0] <= '9');
}

// Names that something is assigned to: variables, members of namespaces, named arguments.
std::set<std::string> assigned_names(const std::vector<Tag>& tags) {
  std::set<std::string> names = {"messages", "add_generation_prompt", "tools", "documents", "role",
                                 "content",  "enable_thinking"};
  for (const Tag& tag : tags) {
    const bool is_set = is_text(tag.tokens, 0, "set") || is_text(tag.tokens, 0, "for") ||
                        is_text(tag.tokens, 0, "macro");
    for (size_t i = 0; i < tag.tokens.size(); ++i) {
      const bool is_target = is_text(tag.tokens, i + 1, "=") && !is_text(tag.tokens, i + 2, "=");
      if (is_name(tag.tokens, i) && (is_set || is_target)) names.insert(tag.tokens[i].text);
    }
  }
  return names;
}

// The name or member whose value stands before token i; empty when it is something else.
std::string tested_name(const Tokens& tokens, size_t i) {
  if (i >= 1 && is_name(tokens, i - 1)) return tokens[i - 1].text;
  const bool is_subscript = i >= 3 && is_text(tokens, i - 1, "]") && tokens[i - 2].is_literal;
  return is_subscript && is_text(tokens, i - 3, "[") ? tokens[i - 2].text : "";
}

// minja takes what is undefined for none, and none for undefined. What transformers defines as none
// is defined; what nothing defines is not none.
void settle_tests(const std::set<std::string>& assigned, Tokens* tokens) {
  for (size_t i = 1; i + 1 < tokens->size(); ++i) {
    if (!is_text(*tokens, i, "is")) continue;
    const size_t test = is_text(*tokens, i + 1, "not") ? i + 2 : i + 1;
    if (!is_name(*tokens, test)) continue;
    std::string& name = (*tokens)[test].text;
    const std::string tested = tested_name(*tokens, i);
    const bool is_member = i >= 2 && is_text(*tokens, i - 2, ".");
    const bool is_given =
        is_name(*tokens, i - 1) && !is_member && (tested == "tools" || tested == "documents");
    if (name == "defined" && is_given) {
      (*tokens)[i - 1].text = "true";
    } else if (name == "undefined") {
      throw std::runtime_error("the test 'undefined' is not supported");
    } else if (name == "sequence") {
      name = "iterable";
    } else if ((name == "none" || name == "None") && !tested.empty() &&
               assigned.find(tested) == assigned.end()) {
      name = "float";
    }
  }
}

// A block that holds others, and what a loop has to put back.
struct OpenBlock {
  std::string keyword;
  size_t tag;
  std::vector<std::string> variables;  // of a loop
  std::set<std::string> set_in_it;     // by an iteration
};

struct Loop {
  std::vector<std::string> variables;
  std::set<std::string> resets;
};

// Names before "in" of a for, or before "=" of a set.
std::vector<std::string> names_before(const Tokens& tokens, std::string_view end) {
  std::vector<std::string> names;
  for (size_t i = 1; i < tokens.size() && !is_text(tokens, i, end); ++i) {
    if (is_text(tokens, i, ".")) return {};
    if (is_name(tokens, i)) names.push_back(tokens[i].text);
  }
  return names;
}

// The loops by the tag that begins them; the tag that ends one is in ends.
void find_loops(const std::vector<Tag>& tags, std::vector<Loop>* begins,
                std::vector<size_t>* ends) {
  constexpr size_t kNone = SIZE_MAX;
  begins->resize(tags.size());
  ends->assign(tags.size(), kNone);
  std::vector<OpenBlock> open;
  for (size_t i = 0; i < tags.size(); ++i) {
    const Tokens& tokens = tags[i].tokens;
    if (tags[i].kind != TagKind::kBlock || tokens.empty()) continue;
    const std::string& keyword = tokens[0].text;
    if (keyword == "set") {
      for (auto block = open.rbegin(); block != open.rend(); ++block) {
        if (block->keyword == "macro") break;
        if (block->keyword != "for") continue;
        for (std::string& name : names_before(tokens, "=")) block->set_in_it.insert(name);
        break;
      }
    }
    const bool opens = keyword == "for" || keyword == "if" || keyword == "macro" ||
                       keyword == "call" || keyword == "filter";
    if (opens) open.push_back({keyword, i, names_before(tokens, "in"), {}});
    if (open.size() > kMaxJinjaNesting) throw std::runtime_error("blocks are nested too deep");
    if (keyword.rfind("end", 0) != 0 || keyword == "endset" || keyword == "endgeneration") continue;
    if (open.empty() || "end" + open.back().keyword != keyword) {
      throw std::runtime_error("'" + keyword + "' ends no block");
    }
    if (keyword == "endfor") {
      (*begins)[open.back().tag] = {open.back().variables, open.back().set_in_it};
      (*ends)[i] = open.back().tag;
    }
    open.pop_back();
  }
  if (!open.empty()) throw std::runtime_error("'" + open.back().keyword + "' has no end");
}

std::string written_tag(const Tag& tag) {
  std::string text = tag.kind == TagKind::kExpression ? "{{" : "{%";
  for (const JinjaToken& token : tag.tokens) {
    // Never where it would part an operator of two characters.
    const bool is_symbol = !token.is_literal && !is_word(token.text[0]);
    if (token.after_blank || !is_symbol) text += token.after_blank ? " " : "";
    text += token.is_literal ? written_literal(token.text) : token.text;
  }
  return text + (tag.kind == TagKind::kExpression ? " }}" : " %}");
}

std::string set_tag(const std::string& to, const std::string& from) {
  return "{% set " + to + " = " + from + " %}";
}

std::string kept_name(size_t loop, const std::string& name) {
  return "cria_kept_" + std::to_string(loop) + "_" + name;
}

}  // namespace

JinjaSource rewrite_jinja(std::string_view jinja) {
  constexpr size_t kNone = SIZE_MAX;
  Parts parts = Lexer(jinja).run();
  JinjaSource result;
  const std::set<std::string> assigned = assigned_names(parts.tags);
  std::vector<Loop> loops;
  std::vector<size_t> ends;
  find_loops(parts.tags, &loops, &ends);
  const auto add_text = [&](const std::string& text) {
    result.plain += text;
    // Text that looks like a tag comes from a raw block.
    const bool is_plain = text.find("{{") == std::string::npos &&
                          text.find("{%") == std::string::npos &&
                          text.find("{#") == std::string::npos;
    result.text += is_plain || text.empty() ? text : "{{ " + written_literal(text) + " }}";
  };
  for (size_t i = 0; i < parts.tags.size(); ++i) {
    add_text(parts.texts[i]);
    Tag& tag = parts.tags[i];
    if (tag.tokens.empty()) throw std::runtime_error("a tag is empty");
    for (const JinjaToken& token : tag.tokens) {
      if (!token.is_literal) continue;
      result.literals.insert(token.text);
      result.plain += token.text;
    }
    settle_tests(assigned, &tag.tokens);
    const Loop& loop = loops[i];
    for (const std::string& name : loop.variables) {
      result.text += set_tag(kept_name(i, name), name);
    }
    for (const std::string& name : loop.resets) result.text += set_tag(kept_name(i, name), name);
    result.text += written_tag(tag);
    for (const std::string& name : loop.resets) result.text += set_tag(name, kept_name(i, name));
    if (ends[i] == kNone) continue;
    for (const std::string& name : loops[ends[i]].variables) {
      result.text += set_tag(name, kept_name(ends[i], name));
    }
  }
  add_text(parts.texts.back());
  return result;
}

}  // namespace cria::converter
