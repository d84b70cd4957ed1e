#include "converter/jinja_functions.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "converter/jinja_operations.h"
#include "converter/jinja_operators.h"
#include "quant/chat_text.h"
#include "quant/unicode.h"
#include "quant/utf8.h"

namespace cria::converter {
namespace {

using minja::ArgumentsValue;
using minja::Context;
using minja::Value;

Value callable(std::string name,
               std::function<Value(const std::shared_ptr<Context>&, ArgumentsValue&)> function) {
  return Value::callable([name = std::move(name), function = std::move(function)](
                             const std::shared_ptr<Context>& context, ArgumentsValue& args) {
    if (args.args.empty()) throw std::runtime_error(name + " without a value");
    return function(context, args);
  });
}

std::string text_argument(const ArgumentsValue& args, size_t i) {
  if (i >= args.args.size() || !args.args[i].is_string()) throw std::runtime_error("no text");
  return args.args[i].get<std::string>();
}

void expect_only(const ArgumentsValue& args, size_t n) {
  if (args.args.size() > n || !args.kwargs.empty()) throw std::runtime_error("too many arguments");
}

// The list that a filter is of.
const Value& list_argument(const ArgumentsValue& args) {
  if (!args.args[0].is_array())
    throw std::runtime_error("a filter of lists is used of what is none");
  return args.args[0];
}

// The item at one end; nothing of an empty list.
Value first_of(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 1);
  const Value& items = list_argument(args);
  return items.size() == 0 ? Value() : items.at(size_t{0});
}

Value last_of(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 1);
  const Value& items = list_argument(args);
  return items.size() == 0 ? Value() : items.at(items.size() - 1);
}

Value reversed(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 1);
  const Value& items = list_argument(args);
  Value result = Value::array();
  for (size_t i = items.size(); i-- > 0;) result.push_back(items.at(i));
  return result;
}

// minja gives the attributes themselves where there is no test.
Value select_attribute(const ArgumentsValue& args, bool selects) {
  if (args.args.size() < 2 || !args.kwargs.empty()) throw std::runtime_error("no attribute");
  const Value& items = list_argument(args);
  const std::string name = text_argument(args, 1);
  if (name.find('.') != std::string::npos) throw std::runtime_error("an attribute with a dot");
  Value result = Value::array();
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items.at(i);
    Value attribute = item.get(Value(name));
    const bool has_test = args.args.size() > 2;
    const bool is_held = has_test ? holds(text_argument(args, 2), attribute,
                                          {args.args.begin() + 3, args.args.end()})
                                  : attribute.to_bool();
    if (is_held == selects) result.push_back(item);
  }
  return result;
}

// Texts -----------------------------------------------------------------------------------------

size_t n_characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

std::set<uint32_t> characters(const std::string& text) {
  std::set<uint32_t> codes;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.data() + i, text.size() - i);
    codes.insert(c.code);
    i += c.n_bytes;
  }
  return codes;
}

Value stripped(const ArgumentsValue& args, bool strips_left, bool strips_right) {
  expect_only(args, 2);
  const std::string text = text_argument(args, 0);
  const bool has_set = args.args.size() > 1;
  const std::set<uint32_t> set =
      has_set ? characters(text_argument(args, 1)) : std::set<uint32_t>();
  size_t begin = text.size();
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.data() + i, text.size() - i);
    const bool is_kept = has_set ? set.find(c.code) == set.end() : !is_stripped(c.code);
    if (is_kept || !strips_left) begin = std::min(begin, i);
    i += c.n_bytes;
    if (is_kept || !strips_right) end = i;
  }
  return Value(begin < end ? text.substr(begin, end - begin) : std::string());
}

Value strip(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  return stripped(args, true, true);
}
Value left_strip(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  return stripped(args, true, false);
}
Value right_strip(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  return stripped(args, false, true);
}

// The number that argument i is; SIZE_MAX, of which there are never as many: it is not there.
size_t count_argument(const ArgumentsValue& args, size_t i) {
  if (i >= args.args.size()) return SIZE_MAX;
  if (!args.args[i].is_number_integer()) throw std::runtime_error("no count");
  const auto count = args.args[i].get<int64_t>();
  return count < 0 ? SIZE_MAX : static_cast<size_t>(count);
}

Value replace(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 4);
  std::string text = text_argument(args, 0);
  const std::string from = text_argument(args, 1);
  const std::string to = text_argument(args, 2);
  size_t left = count_argument(args, 3);
  if (from.empty()) throw std::runtime_error("replace of nothing");
  std::string result;
  size_t begin = 0;
  for (size_t at = text.find(from); at != std::string::npos && left > 0; --left) {
    result.append(text, begin, at - begin).append(to);
    begin = at + from.size();
    at = text.find(from, begin);
  }
  return Value(result.append(text, begin, std::string::npos));
}

Value split(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 3);
  const std::string text = text_argument(args, 0);
  const std::string separator = text_argument(args, 1);
  size_t left = count_argument(args, 2);
  if (separator.empty()) throw std::runtime_error("split at nothing");
  Value parts = Value::array();
  size_t begin = 0;
  for (size_t at = text.find(separator); at != std::string::npos && left > 0; --left) {
    parts.push_back(Value(text.substr(begin, at - begin)));
    begin = at + separator.size();
    at = text.find(separator, begin);
  }
  parts.push_back(Value(text.substr(begin)));
  return parts;
}

Value starts_with(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 2);
  const std::string begin = text_argument(args, 1);
  return Value(text_argument(args, 0).compare(0, begin.size(), begin) == 0);
}

Value ends_with(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 2);
  const std::string text = text_argument(args, 0);
  const std::string end = text_argument(args, 1);
  return Value(text.size() >= end.size() &&
               text.compare(text.size() - end.size(), end.size(), end) == 0);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

enum class LetterCase { kLower, kUpper, kTitle, kCapital };

// What is said may have letters that no conversation of the comparison has.
Value in_case(const ArgumentsValue& args, const std::set<std::string>& literals,
              LetterCase wanted) {
  expect_only(args, 1);
  std::string text = text_argument(args, 0);
  const bool is_role = std::find(std::begin(kChatRoleNames), std::end(kChatRoleNames), text) !=
                       std::end(kChatRoleNames);
  const bool is_ascii =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
  if (!is_ascii || (!is_role && literals.find(text) == literals.end())) {
    throw std::runtime_error("the case of a text is changed");
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_first = i == 0 || (wanted == LetterCase::kTitle && !is_letter(text[i - 1]));
    const bool is_upper =
        wanted == LetterCase::kUpper || (wanted != LetterCase::kLower && is_first);
    text[i] = is_upper ? upper(text[i]) : lower(text[i]);
  }
  return Value(text);
}

// Refusals --------------------------------------------------------------------------------------

Value no_text(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  if (args.args[0].is_string()) throw std::runtime_error("a text is cut by position");
  return args.args[0];
}

Value to_integer(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 1);
  if (!args.args[0].is_number_integer()) throw std::runtime_error("a number is read from a text");
  return args.args[0];
}

Value to_list(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 1);
  return list_argument(args);
}

struct NamedFunction {
  std::string_view name;
  Value (*function)(const std::shared_ptr<Context>&, ArgumentsValue&);
};

constexpr NamedFunction kFilters[] = {{"trim", strip},   {"replace", replace},  {"first", first_of},
                                      {"last", last_of}, {"reverse", reversed}, {"int", to_integer},
                                      {"list", to_list}};

// Of kJinjaTextMethods; those that change the case need the template's texts.
constexpr NamedFunction kMethods[] = {
    {"strip", strip},     {"lstrip", left_strip},      {"rstrip", right_strip}, {"split", split},
    {"replace", replace}, {"startswith", starts_with}, {"endswith", ends_with}};
struct NamedCase {
  std::string_view name;
  LetterCase wanted;
};
constexpr NamedCase kCases[] = {{"lower", LetterCase::kLower},
                                {"upper", LetterCase::kUpper},
                                {"title", LetterCase::kTitle},
                                {"capitalize", LetterCase::kCapital}};
static_assert(std::size(kMethods) + std::size(kCases) == std::size(kJinjaTextMethods));

}  // namespace

void set_jinja_functions(const std::set<std::string>& literals, TextLengths* lengths,
                         Value* functions) {
  const auto set = [functions](std::string_view name, auto function) {
    const std::string text(name);
    functions->set(Value(text), callable(text, function));
  };
  const std::string own(kJinjaOwnPrefix);
  for (const NamedFunction& filter : kFilters) set(filter.name, filter.function);
  set(own + "no_text", no_text);
  for (const NamedFunction& method : kMethods) set(own + std::string(method.name), method.function);
  for (const NamedCase& item : kCases) {
    const auto change = [&literals, wanted = item.wanted](const std::shared_ptr<Context>&,
                                                          ArgumentsValue& args) {
      return in_case(args, literals, wanted);
    };
    set(item.name, change);
    set(own + std::string(item.name), change);
  }
  const auto length = [lengths](const std::shared_ptr<Context>&, ArgumentsValue& args) {
    expect_only(args, 1);
    const Value& value = args.args[0];
    if (!value.is_string()) return Value(static_cast<int64_t>(value.size()));
    const size_t n = n_characters(value.get<std::string>());
    lengths->are_asked = true;
    return Value(static_cast<int64_t>(n == 0 ? 0 : n + lengths->added));
  };
  set("length", length);
  set("count", length);
  set("selectattr", [](const std::shared_ptr<Context>&, ArgumentsValue& args) {
    return select_attribute(args, true);
  });
  set("rejectattr", [](const std::shared_ptr<Context>&, ArgumentsValue& args) {
    return select_attribute(args, false);
  });
}

}  // namespace cria::converter
