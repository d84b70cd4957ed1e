#include "converter/jinja_guards.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <stdexcept>

namespace cria::converter {
namespace {

bool is_one_of(const JinjaTokens& tokens, size_t i, std::initializer_list<const char*> texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const char* text) { return is_jinja(tokens, i, text); });
}

// Whether token i ends a value, so that a bracket or a dot behind it belongs to it.
bool ends_value(const JinjaTokens& tokens, size_t i) {
  if (is_jinja_literal(tokens, i)) return true;
  if (is_one_of(tokens, i, {"in", "and", "or", "not", "if", "elif", "else", "is", "for", "set"})) {
    return false;
  }
  return i < tokens.size() &&
         (is_jinja_word(tokens[i].text[0]) || is_one_of(tokens, i, {")", "]", "}"}));
}

bool opens(const JinjaTokens& tokens, size_t i) { return is_one_of(tokens, i, {"(", "[", "{"}); }
bool closes(const JinjaTokens& tokens, size_t i) { return is_one_of(tokens, i, {")", "]", "}"}); }

size_t closing(const JinjaTokens& tokens, size_t i) {
  size_t depth = 0;
  for (; i < tokens.size(); ++i) {
    if (opens(tokens, i)) ++depth;
    if (closes(tokens, i) && --depth == 0) return i;
  }
  throw std::runtime_error("a bracket does not end");
}

size_t opening(const JinjaTokens& tokens, size_t i) {
  size_t depth = 0;
  for (;; --i) {
    if (closes(tokens, i)) ++depth;
    if (opens(tokens, i) && --depth == 0) return i;
    if (i == 0) throw std::runtime_error("a bracket does not begin");
  }
}

// Where the value begins that ends before token i: a name, literal or bracket with the members,
// subscripts and calls behind it.
size_t value_begin(const JinjaTokens& tokens, size_t i) {
  if (i == 0 || !ends_value(tokens, i - 1)) throw std::runtime_error("a value is missing");
  for (;;) {
    size_t begin = i - 1;
    if (closes(tokens, begin)) begin = opening(tokens, begin);
    const bool is_bracket = opens(tokens, begin);
    if (is_bracket && begin > 0 && ends_value(tokens, begin - 1) && !is_jinja(tokens, begin, "{")) {
      i = begin;  // of a call or subscript
    } else if (begin >= 2 && is_jinja(tokens, begin - 1, ".") && ends_value(tokens, begin - 2)) {
      i = begin - 1;  // a member
    } else {
      if (begin > 0 && is_jinja(tokens, begin - 1, "|")) {
        throw std::runtime_error("a filter's result is used without brackets");
      }
      return begin;
    }
  }
}

void insert(JinjaTokens* tokens, size_t i, std::initializer_list<std::string_view> texts) {
  JinjaTokens added;
  for (const std::string_view text : texts) added.push_back({std::string(text), false, true});
  tokens->insert(tokens->begin() + static_cast<std::ptrdiff_t>(i), added.begin(), added.end());
}

// minja takes the sign of what a remainder or a quotient makes, Python that of its first number.
void check_sign(const JinjaTokens& tokens, size_t i) {
  const size_t begin = value_begin(tokens, i);
  if (begin == 0 || !is_jinja(tokens, begin - 1, "-")) return;
  if (begin == 1 || !ends_value(tokens, begin - 2)) {
    throw std::runtime_error("what is divided has a sign");
  }
}

// Puts the value before token i through a filter; returns how many tokens are new before i.
size_t filter_value(JinjaTokens* tokens, size_t i, std::string_view filter) {
  const size_t begin = value_begin(*tokens, i);
  insert(tokens, i, {"|", filter, ")"});
  insert(tokens, begin, {"("});
  return 4;
}

// x.strip(...)
bool settle_method(JinjaTokens* tokens, size_t i) {
  if (!is_jinja(*tokens, i, ".") || !is_jinja(*tokens, i + 2, "(")) return false;
  const bool is_known =
      std::any_of(std::begin(kJinjaTextMethods), std::end(kJinjaTextMethods),
                  [&](std::string_view method) { return is_jinja(*tokens, i + 1, method); });
  if (!is_known) return false;
  const size_t begin = value_begin(*tokens, i);
  insert(tokens, closing(*tokens, i + 2) + 1, {")"});
  (*tokens)[i].text = "|";
  (*tokens)[i + 1].text.insert(0, kJinjaOwnPrefix);
  insert(tokens, begin, {"("});
  return true;
}

bool is_none(const JinjaTokens& tokens, size_t i) { return is_one_of(tokens, i, {"none", "None"}); }
bool is_truth(const JinjaTokens& tokens, size_t i) {
  return is_one_of(tokens, i, {"true", "True", "false", "False"});
}

// x == none is x is none; what is compared with true must be no number, of which Python holds that
// 1 is true. Returns how many tokens are new before i.
size_t settle_comparison(JinjaTokens* tokens, size_t i) {
  const bool is_equal = is_jinja(*tokens, i, "=");
  const bool is_other = is_one_of(*tokens, i, {"<", ">"});
  const bool has_two = is_jinja(*tokens, i + 1, "=") && !(*tokens)[i + 1].after_blank;
  if (is_other) {
    if (is_jinja_literal(*tokens, i - 1) || is_jinja_literal(*tokens, i + (has_two ? 2 : 1))) {
      throw std::runtime_error("texts are put in order");
    }
    return 0;
  }
  if (!has_two || !(is_equal || is_jinja(*tokens, i, "!"))) return 0;
  if (is_truth(*tokens, i - 1) && is_truth(*tokens, i + 2)) return 0;
  if (is_none(*tokens, i - 1) || is_truth(*tokens, i - 1)) {
    throw std::runtime_error("none, true or false is compared with a value; write it behind");
  }
  if (is_none(*tokens, i + 2)) {
    (*tokens)[i] = {"is", false, true};
    (*tokens)[i + 1] = {is_equal ? "none" : "not", false, true};
    (*tokens)[i + 2] = {"none", false, true};
    if (is_equal) tokens->erase(tokens->begin() + static_cast<std::ptrdiff_t>(i) + 2);
    return 0;
  }
  return is_truth(*tokens, i + 2) ? filter_value(tokens, i, kJinjaNoNumber) : 0;
}

// tools and documents are given, as none: Jinja2 keeps none where minja takes the default.
void settle_default(JinjaTokens* tokens, size_t i) {
  if (!is_jinja(*tokens, i, "|") || !is_one_of(*tokens, i + 1, {"default", "d"})) return;
  const size_t end = is_jinja(*tokens, i + 2, "(") ? closing(*tokens, i + 2) : i + 1;
  const bool takes_none =
      std::any_of(tokens->begin() + static_cast<std::ptrdiff_t>(i),
                  tokens->begin() + static_cast<std::ptrdiff_t>(end), [](const JinjaToken& token) {
                    return !token.is_literal && (token.text == "true" || token.text == "True");
                  });
  if (takes_none) return;
  if (is_jinja(*tokens, i - 1, ")")) {
    throw std::runtime_error("a call's result has a default");
  }
  const bool is_given = is_one_of(*tokens, i - 1, {"tools", "documents"}) &&
                        !(i >= 2 && is_jinja(*tokens, i - 2, "."));
  if (!is_given) return;
  tokens->erase(tokens->begin() + static_cast<std::ptrdiff_t>(i),
                tokens->begin() + static_cast<std::ptrdiff_t>(end) + 1);
}

// The name or member whose value stands before token i; empty when it is something else.
std::string tested_name(const JinjaTokens& tokens, size_t i) {
  if (i >= 1 && is_jinja_name(tokens, i - 1)) return tokens[i - 1].text;
  const bool is_subscript = i >= 3 && is_jinja(tokens, i - 1, "]") && tokens[i - 2].is_literal;
  return is_subscript && is_jinja(tokens, i - 3, "[") ? tokens[i - 2].text : "";
}

// minja takes what is undefined for none, and none for undefined. What transformers defines as none
// is defined; what nothing defines is not none.
void settle_tests(const std::set<std::string>& assigned, JinjaTokens* tokens) {
  for (size_t i = 1; i + 1 < tokens->size(); ++i) {
    if (!is_jinja(*tokens, i, "is")) continue;
    const size_t test = is_jinja(*tokens, i + 1, "not") ? i + 2 : i + 1;
    if (!is_jinja_name(*tokens, test)) continue;
    std::string& name = (*tokens)[test].text;
    const std::string tested = tested_name(*tokens, i);
    const bool is_member = i >= 2 && is_jinja(*tokens, i - 2, ".");
    const bool is_given =
        is_jinja_name(*tokens, i - 1) && !is_member && (tested == "tools" || tested == "documents");
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

// What x.get('y') gives where there is no y: Jinja2 writes None for it, minja nothing.
void check_written_get(const JinjaTag& tag) {
  const JinjaTokens& tokens = tag.tokens;
  if (tag.kind != JinjaTagKind::kExpression) return;
  for (size_t i = 1; i + 2 < tokens.size(); ++i) {
    if (!is_jinja(tokens, i - 1, ".") || !is_jinja(tokens, i, "get")) continue;
    if (!is_jinja(tokens, i + 1, "(")) continue;
    const size_t end = closing(tokens, i + 1);
    if (end == i + 3 && !is_one_of(tokens, end + 1, {"or", "and", "is", "if", "else", "=", "!"})) {
      throw std::runtime_error("what may be missing is written");
    }
  }
}

// Jinja2 writes none as a word, minja as nothing.
void check_written_none(const JinjaTag& tag) {
  if (tag.kind == JinjaTagKind::kExpression && tag.tokens.size() == 1 &&
      is_one_of(tag.tokens, 0, {"tools", "documents", "none", "None"})) {
    throw std::runtime_error("what is none is written");
  }
}

void check_names(const JinjaTokens& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (is_jinja_name(tokens, i) && tokens[i].text.rfind(kJinjaOwnPrefix, 0) == 0) {
      throw std::runtime_error("a name begins with " + std::string(kJinjaOwnPrefix));
    }
    // minja holds an empty one for true.
    const bool is_argument = i > 0 && is_one_of(tokens, i - 1, {"(", ","});
    if (is_jinja(tokens, i, "{") && is_jinja(tokens, i + 1, "}") && !is_argument) {
      throw std::runtime_error("an empty dictionary is used");
    }
  }
}

}  // namespace

// Names that something is assigned to: variables, members of namespaces, named arguments.
std::set<std::string> assigned_jinja_names(const std::vector<JinjaTag>& tags) {
  std::set<std::string> names = {"messages", "add_generation_prompt", "tools", "documents", "role",
                                 "content",  "enable_thinking"};
  for (const JinjaTag& tag : tags) {
    const bool is_set = is_jinja(tag.tokens, 0, "set") || is_jinja(tag.tokens, 0, "for") ||
                        is_jinja(tag.tokens, 0, "macro");
    for (size_t i = 0; i < tag.tokens.size(); ++i) {
      const bool is_target = is_jinja(tag.tokens, i + 1, "=") && !is_jinja(tag.tokens, i + 2, "=");
      if (is_jinja_name(tag.tokens, i) && (is_set || is_target)) names.insert(tag.tokens[i].text);
    }
  }
  return names;
}

void settle_operations(const std::set<std::string>& assigned, JinjaTag* tag) {
  JinjaTokens* const tokens = &tag->tokens;
  check_names(*tokens);
  check_written_get(*tag);
  for (size_t i = 1; i < tokens->size(); ++i) {
    if (settle_method(tokens, i)) {
      i += 1;
    } else if (is_jinja(*tokens, i, "[") && ends_value(*tokens, i - 1)) {
      const bool is_member = is_jinja_literal(*tokens, i + 1) && is_jinja(*tokens, i + 2, "]");
      if (!is_member) i += filter_value(tokens, i, kJinjaNoText);
    } else if (is_jinja(*tokens, i, "%") && ends_value(*tokens, i - 1)) {
      check_sign(*tokens, i);
      i += filter_value(tokens, i, kJinjaNatural);
    } else if (is_jinja(*tokens, i, "/")) {
      if (!is_jinja(*tokens, i + 1, "/")) throw std::runtime_error("a division is not supported");
      check_sign(*tokens, i);
      i += filter_value(tokens, i, kJinjaNatural) + 1;
    } else {
      settle_default(tokens, i);
      i += settle_comparison(tokens, i);
    }
  }
  settle_tests(assigned, tokens);
  check_written_none(*tag);
}

}  // namespace cria::converter
