// A Jinja template cut into texts and tags, white space settled as Jinja2 does with trim_blocks and
// lstrip_blocks and without the last newline.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cria::converter {

inline constexpr size_t kMaxJinjaNesting = 64;  // of brackets, and of blocks

// A token of a tag: a word, a number, a string literal or one character.
struct JinjaToken {
  std::string text;
  bool is_literal;
  bool after_blank;
};
using JinjaTokens = std::vector<JinjaToken>;

enum class JinjaTagKind { kNone, kExpression, kBlock, kComment };

struct JinjaTag {
  JinjaTagKind kind;
  JinjaTokens tokens;
};

// texts[i] stands before tags[i]; one more text follows the last tag. Comments and raw blocks are
// gone.
struct JinjaParts {
  std::vector<std::string> texts;
  std::vector<JinjaTag> tags;
};

// Throws std::runtime_error, one line, for tags and strings that do not end or are nested too deep.
[[nodiscard]] JinjaParts read_jinja(std::string_view jinja);

[[nodiscard]] bool is_jinja_word(char c);
// Whether token i is there and is this word, number or character; never a string literal.
[[nodiscard]] bool is_jinja(const JinjaTokens& tokens, size_t i, std::string_view text);
[[nodiscard]] bool is_jinja_name(const JinjaTokens& tokens, size_t i);
[[nodiscard]] bool is_jinja_literal(const JinjaTokens& tokens, size_t i);

}  // namespace cria::converter
