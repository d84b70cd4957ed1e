#include "converter/jinja_source.h"

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "converter/jinja_lexer.h"
#include "converter/jinja_operations.h"

namespace cria::converter {
namespace {

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
std::vector<std::string> names_before(const JinjaTokens& tokens, std::string_view end) {
  std::vector<std::string> names;
  for (size_t i = 1; i < tokens.size() && !is_jinja(tokens, i, end); ++i) {
    if (is_jinja(tokens, i, ".")) return {};
    if (is_jinja_name(tokens, i)) names.push_back(tokens[i].text);
  }
  return names;
}

// The loops by the tag that begins them; the tag that ends one is in ends.
void find_loops(const std::vector<JinjaTag>& tags, std::vector<Loop>* begins,
                std::vector<size_t>* ends) {
  constexpr size_t kNone = SIZE_MAX;
  begins->resize(tags.size());
  ends->assign(tags.size(), kNone);
  std::vector<OpenBlock> open;
  for (size_t i = 0; i < tags.size(); ++i) {
    const JinjaTokens& tokens = tags[i].tokens;
    if (tags[i].kind != JinjaTagKind::kBlock || tokens.empty()) continue;
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

// Texts joined by + or ~ count as the one that they are together.
void note_literals(const JinjaTokens& tokens, bool is_tested, JinjaSource* source) {
  const auto note = [&](const std::string& text) {
    source->literals.insert(text);
    if (is_tested) source->tested.insert(text);
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].is_literal) continue;
    const bool is_key = i > 0 && is_jinja(tokens, i - 1, "[") && is_jinja(tokens, i + 1, "]");
    if (is_key) {
      source->literals.insert(tokens[i].text);
      continue;
    }
    note(tokens[i].text);
    std::string joined = tokens[i].text;
    size_t next = i + 1;
    while ((is_jinja(tokens, next, "+") || is_jinja(tokens, next, "~")) &&
           is_jinja_literal(tokens, next + 1)) {
      joined += tokens[next + 1].text;
      next += 2;
    }
    if (next > i + 1) note(joined);
  }
}

// Numbers of at most this many digits are read: larger ones count no messages.
constexpr size_t kMostDigits = 6;
constexpr size_t kMostTextDigits = 2;

bool is_number(const std::string& text, size_t most_digits) {
  return !text.empty() && text.size() <= most_digits &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

void note_constants(const JinjaTokens& tokens, JinjaSource* source) {
  bool is_tested = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    is_tested |= is_jinja(tokens, i, "in") || is_jinja(tokens, i, "=") ||
                 is_jinja(tokens, i, "!") || is_jinja(tokens, i, "|") || is_jinja(tokens, i, ".");
    const std::string& text = tokens[i].text;
    // A number may be compared as the text that it is written as.
    const bool is_written = tokens[i].is_literal && is_number(text, kMostTextDigits);
    const bool is_digit = !tokens[i].is_literal && text[0] >= '0' && text[0] <= '9';
    if (is_digit && (!is_number(text, kMostDigits) || is_jinja(tokens, i + 1, "."))) {
      throw std::runtime_error("a number is no whole number of at most six digits");
    }
    if (is_digit || is_written) {
      source->numbers.insert(std::strtoul(text.c_str(), nullptr, 10));
    }
  }
  note_literals(tokens, is_tested, source);
}

std::string written_tag(const JinjaTag& tag) {
  std::string text = tag.kind == JinjaTagKind::kExpression ? "{{" : "{%";
  for (const JinjaToken& token : tag.tokens) {
    // Never where it would part an operator of two characters.
    const bool is_symbol = !token.is_literal && !is_jinja_word(token.text[0]);
    if (token.after_blank || !is_symbol) text += token.after_blank ? " " : "";
    text += token.is_literal ? written_literal(token.text) : token.text;
  }
  return text + (tag.kind == JinjaTagKind::kExpression ? " }}" : " %}");
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
  JinjaParts parts = read_jinja(jinja);
  JinjaSource result;
  std::vector<Loop> loops;
  std::vector<size_t> ends;
  find_loops(parts.tags, &loops, &ends);
  const auto add_text = [&](const std::string& text) {
    // Text that looks like a tag comes from a raw block; a brace makes one with a tag behind it.
    const bool is_plain =
        text.find("{{") == std::string::npos && text.find("{%") == std::string::npos &&
        text.find("{#") == std::string::npos && (text.empty() || text.back() != '{');
    result.text += is_plain || text.empty() ? text : "{{ " + written_literal(text) + " }}";
  };
  for (size_t i = 0; i < parts.tags.size(); ++i) {
    add_text(parts.texts[i]);
    JinjaTag& tag = parts.tags[i];
    if (tag.tokens.empty()) throw std::runtime_error("a tag is empty");
    note_constants(tag.tokens, &result);
    rewrite_operations(&tag);
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
