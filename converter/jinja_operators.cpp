#include "converter/jinja_operators.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "converter/jinja_operations.h"

namespace cria::converter {
namespace {

using minja::ArgumentsValue;
using minja::Context;
using minja::Value;

constexpr size_t kLongestText = size_t{1} << 24;

[[noreturn]] void fail(const char* problem) { throw std::runtime_error(problem); }

bool is_undefined(const Value& value) { return value.is_null(); }

// True and False are numbers to Python.
std::optional<int64_t> number_of(const Value& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

int64_t need_number(const Value& value) {
  const auto number = number_of(value);
  if (!number) fail("what is calculated with is no number");
  return *number;
}

// Comparisons -----------------------------------------------------------------------------------

constexpr size_t kDeepest = 32;

bool are_equal(const Value& a, const Value& b, size_t depth = 0);

bool have_equal_items(const Value& a, const Value& b, size_t depth) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!are_equal(a.at(i), b.at(i), depth + 1)) return false;
  }
  return true;
}

bool have_equal_members(Value a, Value b, size_t depth) {
  if (a.size() != b.size()) return false;
  for (const Value& key : a.keys()) {
    if (!b.contains(key) || !are_equal(a.at(key), b.at(key), depth + 1)) return false;
  }
  return true;
}

bool are_equal(const Value& a, const Value& b, size_t depth) {
  if (depth > kDeepest) fail("what is compared is nested too deep");
  if (a.is_callable() || b.is_callable()) fail("a function is compared");
  if (is_none(a) || is_none(b)) return is_none(a) && is_none(b);
  if (is_undefined(a) || is_undefined(b)) return is_undefined(a) && is_undefined(b);
  const auto x = number_of(a);
  const auto y = number_of(b);
  if (x || y) return x == y;
  if (a.is_string() || b.is_string()) {
    return a.is_string() && b.is_string() && a.get<std::string>() == b.get<std::string>();
  }
  if (a.is_array() != b.is_array()) return false;
  return a.is_array() ? have_equal_items(a, b, depth) : have_equal_members(a, b, depth);
}

bool is_in(const Value& item, const Value& container) {
  if (container.is_string()) {
    if (!item.is_string()) fail("what is looked for in a text is no text");
    return container.get<std::string>().find(item.get<std::string>()) != std::string::npos;
  }
  if (container.is_array()) {
    for (size_t i = 0; i < container.size(); ++i) {
      if (are_equal(container.at(i), item)) return true;
    }
    return false;
  }
  if (container.is_object()) return item.is_string() && container.contains(item);
  if (!is_undefined(container)) fail("something is looked for in what has no items");
  return false;
}

bool is_below(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) fail("texts are put in order");
  return need_number(a) < need_number(b);
}

// Arithmetic ------------------------------------------------------------------------------------

Value plus(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return Value(a.get<std::string>() + b.get<std::string>());
  if (a.is_array() && b.is_array()) {
    Value all = Value::array();
    for (const Value* list : {&a, &b}) {
      for (size_t i = 0; i < list->size(); ++i) all.push_back(list->at(i));
    }
    return all;
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(need_number(a), need_number(b), &sum)) fail("a number is too large");
  return Value(sum);
}

Value minus(const Value& a, const Value& b) {
  int64_t difference = 0;
  if (__builtin_sub_overflow(need_number(a), need_number(b), &difference)) {
    fail("a number is too large");
  }
  return Value(difference);
}

Value times(const Value& a, const Value& b) {
  if (a.is_string() || b.is_string()) {
    const std::string text = (a.is_string() ? a : b).get<std::string>();
    const int64_t count = std::max<int64_t>(need_number(a.is_string() ? b : a), 0);
    if (!text.empty() && static_cast<uint64_t>(count) > kLongestText / text.size()) {
      fail("a text is too long");
    }
    std::string all;
    for (int64_t i = 0; i < count && !text.empty(); ++i) all += text;
    return Value(all);
  }
  int64_t product = 0;
  if (__builtin_mul_overflow(need_number(a), need_number(b), &product)) {
    fail("a number is too large");
  }
  return Value(product);
}

// Rounded down, as Python rounds.
int64_t quotient_of(int64_t a, int64_t b) {
  if (b == 0) fail("a number is divided by zero");
  if (b == -1) {
    int64_t negative = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &negative)) fail("a number is too large");
    return negative;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Value quotient(const Value& a, const Value& b) {
  return Value(quotient_of(need_number(a), need_number(b)));
}

Value remainder(const Value& a, const Value& b) {
  const int64_t divisor = need_number(b);
  const int64_t number = need_number(a);
  return Value(divisor == -1 ? int64_t{0} : number - quotient_of(number, divisor) * divisor);
}

Value divided(const Value& /*a*/, const Value& /*b*/) { fail("a division is not supported"); }

Value power(const Value& a, const Value& b) {
  const int64_t base = need_number(a);
  const int64_t exponent = need_number(b);
  if (exponent < 0) fail("a power is a fraction");
  const bool stays = base == 0 || base == 1 || base == -1;
  const int64_t n = stays ? (exponent > 1 ? 2 - exponent % 2 : exponent) : exponent;
  int64_t result = 1;
  for (int64_t i = 0; i < n; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) fail("a number is too large");
  }
  return Value(result);
}

Value joined(const Value& a, const Value& b) { return Value(written_text(a) + written_text(b)); }

// Tests -----------------------------------------------------------------------------------------

bool is_sequence(const Value& v) {
  return v.is_string() || v.is_array() || (v.is_object() && !v.is_callable()) || is_undefined(v);
}

struct NamedTest {
  std::string_view name;
  bool (*holds)(const Value& value);
};
constexpr NamedTest kTests[] = {
    {"defined", [](const Value& v) { return !is_undefined(v); }},
    {"undefined", [](const Value& v) { return is_undefined(v); }},
    {"none", [](const Value& v) { return is_none(v); }},
    {"boolean", [](const Value& v) { return v.is_boolean(); }},
    {"true", [](const Value& v) { return v.is_boolean() && v.get<bool>(); }},
    {"false", [](const Value& v) { return v.is_boolean() && !v.get<bool>(); }},
    {"integer", [](const Value& v) { return v.is_number_integer(); }},
    {"float", [](const Value&) { return false; }},
    {"number", [](const Value& v) { return number_of(v).has_value(); }},
    {"string", [](const Value& v) { return v.is_string(); }},
    {"mapping", [](const Value& v) { return v.is_object() && !v.is_callable(); }},
    {"sequence", is_sequence},
    {"iterable", is_sequence},
    {"callable", [](const Value& v) { return v.is_callable(); }},
    {"odd", [](const Value& v) { return need_number(v) % 2 != 0; }},
    {"even", [](const Value& v) { return need_number(v) % 2 == 0; }}};

struct ComparingTest {
  std::string_view name;
  bool (*holds)(const Value& value, const Value& other);
};
bool is_above(const Value& a, const Value& b) { return is_below(b, a); }
bool is_at_most(const Value& a, const Value& b) { return !is_below(b, a); }
bool is_at_least(const Value& a, const Value& b) { return !is_below(a, b); }
bool are_same(const Value& a, const Value& b) { return are_equal(a, b); }
bool are_unequal(const Value& a, const Value& b) { return !are_equal(a, b); }
bool is_divisible(const Value& a, const Value& b) { return remainder(a, b).get<int64_t>() == 0; }
constexpr ComparingTest kComparingTests[] = {{"equalto", are_same},
                                             {"eq", are_same},
                                             {"==", are_same},
                                             {"ne", are_unequal},
                                             {"!=", are_unequal},
                                             {"lt", is_below},
                                             {"lessthan", is_below},
                                             {"<", is_below},
                                             {"gt", is_above},
                                             {"greaterthan", is_above},
                                             {">", is_above},
                                             {"le", is_at_most},
                                             {"<=", is_at_most},
                                             {"ge", is_at_least},
                                             {">=", is_at_least},
                                             {"in", is_in},
                                             {"divisibleby", is_divisible}};

// Functions -------------------------------------------------------------------------------------

Value default_of(const ArgumentsValue& args) {
  Value otherwise("");
  bool takes_false = false;
  if (args.args.size() > 1) otherwise = args.args[1];
  if (args.args.size() > 2) takes_false = args.args[2].to_bool();
  if (args.args.size() > 3) fail("too many arguments");
  for (const auto& [name, value] : args.kwargs) {
    if (name == "default_value") {
      otherwise = value;
    } else if (name == "boolean") {
      takes_false = value.to_bool();
    } else {
      fail("an unknown argument");
    }
  }
  const Value& value = args.args[0];
  const bool is_there = takes_false ? value.to_bool() : !is_undefined(value);
  return is_there ? value : otherwise;
}

// x.get(name) of a dictionary.
Value member_of(const ArgumentsValue& args) {
  const Value& dictionary = args.args[0];
  if (!dictionary.is_object() || dictionary.is_callable()) fail("get of what is no dictionary");
  if (args.args.size() < 2 || args.args.size() > 3 || !args.kwargs.empty()) fail("get of no name");
  const Value& name = args.args[1];
  if (!name.is_string()) fail("get of what is no name");
  if (dictionary.contains(name)) return dictionary.at(name);
  return args.args.size() == 3 ? args.args[2] : none_value();
}

// What a loop goes over.
Value items_of(const Value& value) {
  if (value.is_string()) fail("a loop goes over the characters of a text");
  if (value.is_array() || value.is_object() || is_undefined(value)) return value;
  fail("a loop goes over what has no items");
}

Value test_of(const ArgumentsValue& args) {
  if (!args.kwargs.empty()) fail("a test has named arguments");
  return Value(holds(args.args.at(1).get<std::string>(), args.args[0],
                     {args.args.begin() + 2, args.args.end()}));
}

Value filtered(const ArgumentsValue& args, bool selects) {
  if (!args.kwargs.empty()) fail("a filter has named arguments");
  const Value& items = args.args[0];
  Value result = Value::array();
  if (is_undefined(items)) return result;
  if (!items.is_array()) fail("a filter of lists is used of what is none");
  for (size_t i = 0; i < items.size(); ++i) {
    const Value& item = items.at(i);
    const bool has_test = args.args.size() > 1;
    const bool is_held = has_test ? holds(args.args[1].get<std::string>(), item,
                                          {args.args.begin() + 2, args.args.end()})
                                  : item.to_bool();
    if (is_held == selects) result.push_back(item);
  }
  return result;
}

Value select(const ArgumentsValue& args) { return filtered(args, true); }
Value reject(const ArgumentsValue& args) { return filtered(args, false); }

Value written(const ArgumentsValue& args) { return Value(written_text(args.args[0])); }

Value joined_items(const ArgumentsValue& args) {
  if (args.args.size() > 2 || !args.kwargs.empty()) fail("join has other arguments");
  const std::string between = args.args.size() > 1 ? written_text(args.args[1]) : "";
  const Value& items = args.args[0];
  std::string text;
  if (is_undefined(items)) return Value(text);
  if (!items.is_array()) fail("what is joined is no list");
  for (size_t i = 0; i < items.size(); ++i) {
    text += (i > 0 ? between : "") + written_text(items.at(i));
    if (text.size() > kLongestText) fail("a text is too long");
  }
  return Value(text);
}

Value negative(const ArgumentsValue& args) { return minus(Value(int64_t{0}), args.args[0]); }
Value positive(const ArgumentsValue& args) { return Value(need_number(args.args[0])); }
Value items(const ArgumentsValue& args) { return items_of(args.args[0]); }

struct NamedFunction {
  std::string_view name;
  Value (*function)(const ArgumentsValue& args);
};
constexpr NamedFunction kOwn[] = {
    {"default", default_of}, {"get", member_of},     {"items", items},      {"is", test_of},
    {"written", written},    {"negative", negative}, {"positive", positive}};
constexpr NamedFunction kFilters[] = {
    {"select", select}, {"reject", reject}, {"string", written}, {"join", joined_items}};

// Of two values; of more from the left.
struct NamedOperator {
  std::string_view name;
  Value (*function)(const Value& a, const Value& b);
};
constexpr NamedOperator kOperators[] = {
    {"plus", plus},
    {"minus", minus},
    {"times", times},
    {"quotient", quotient},
    {"remainder", remainder},
    {"divided", divided},
    {"power", power},
    {"joined", joined},
    {"equal", [](const Value& a, const Value& b) { return Value(are_equal(a, b)); }},
    {"unequal", [](const Value& a, const Value& b) { return Value(!are_equal(a, b)); }},
    {"below", [](const Value& a, const Value& b) { return Value(is_below(a, b)); }},
    {"above", [](const Value& a, const Value& b) { return Value(is_above(a, b)); }},
    {"at_most", [](const Value& a, const Value& b) { return Value(is_at_most(a, b)); }},
    {"at_least", [](const Value& a, const Value& b) { return Value(is_at_least(a, b)); }},
    {"in", [](const Value& a, const Value& b) { return Value(is_in(a, b)); }},
    {"not_in", [](const Value& a, const Value& b) { return Value(!is_in(a, b)); }}};

// The size of a value that was made, in steps.
size_t steps_of(const Value& value) {
  if (value.is_string()) return value.size() / JinjaBudget::kBytesInAStep;
  return value.is_array() ? value.size() : 0;
}

// Whether none is in it, which minja would write as a number.
bool has_none(Value value, size_t depth = 0) {
  if (depth > kDeepest) fail("what is written is nested too deep");
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      if (has_none(value.at(i), depth + 1)) return true;
    }
  } else if (value.is_object() && !value.is_callable()) {
    for (const Value& key : value.keys()) {
      if (has_none(value.at(key), depth + 1)) return true;
    }
  }
  return is_none(value) || is_undefined(value);
}

}  // namespace

Value none_value() { return Value(0.0); }
bool is_none(const Value& value) { return value.is_number_float(); }

std::string written_text(const Value& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number_integer()) return std::to_string(value.get<int64_t>());
  if (is_none(value)) return "None";
  if (!is_undefined(value)) fail("a value is written that is no text");
  return "";
}

bool holds(std::string_view test, const Value& value, const std::vector<Value>& arguments) {
  for (const NamedTest& each : kTests) {
    if (each.name != test) continue;
    if (!arguments.empty()) fail("a test has too many values");
    return each.holds(value);
  }
  for (const ComparingTest& each : kComparingTests) {
    if (each.name != test) continue;
    if (arguments.size() != 1) fail("a test needs one value");
    return each.holds(value, arguments[0]);
  }
  throw std::runtime_error("the test '" + std::string(test) + "' is not supported");
}

void JinjaBudget::spend(size_t steps) {
  spent_ += steps;
  check();
}

void JinjaBudget::check() const {
  // The longest of published templates takes 700,000.
  constexpr size_t kMost = size_t{1} << 21;
  if (spent_ > kMost) fail("it takes too many steps");
}

void set_jinja_operators(JinjaBudget* budget, Value* functions) {
  const auto set = [&](const std::string& name, auto function) {
    functions->set(Value(name), Value::callable([budget, function](const std::shared_ptr<Context>&,
                                                                   ArgumentsValue& args) {
                     if (args.args.empty()) fail("a function without a value");
                     budget->spend(1 + steps_of(args.args[0]));
                     Value result = function(args);
                     budget->spend(steps_of(result));
                     return result;
                   }));
  };
  const std::string own(kJinjaOwnPrefix);
  for (const NamedFunction& each : kOwn) set(own + std::string(each.name), each.function);
  for (const NamedFunction& each : kFilters) set(std::string(each.name), each.function);
  for (const NamedOperator& each : kOperators) {
    set(own + std::string(each.name), [function = each.function](const ArgumentsValue& args) {
      Value value = args.args[0];
      for (size_t i = 1; i < args.args.size(); ++i) {
        value = function(value, args.args[i]);
        if (value.is_string() && value.size() > kLongestText) fail("a text is too long");
      }
      return value;
    });
  }
  const Value range = Context::builtins()->get(Value("range"));
  functions->set(Value("range"),
                 Value::callable([budget, range](const std::shared_ptr<Context>& context,
                                                 ArgumentsValue& args) {
                   constexpr int64_t kFurthest = 1 << 16;
                   for (const Value& bound : args.args) {
                     const int64_t number = need_number(bound);
                     if (number > kFurthest || number < -kFurthest) fail("a range is too long");
                   }
                   if (!args.kwargs.empty() || args.args.size() > 3) fail("range of other values");
                   if (args.args.size() == 3 && need_number(args.args[2]) == 0) {
                     fail("a range makes no steps");
                   }
                   Value result = range.call(context, args);
                   budget->spend(1 + steps_of(result));
                   return result;
                 }));
  const Value to_json = Context::builtins()->get(Value("tojson"));
  functions->set(Value("tojson"), Value::callable([to_json](const std::shared_ptr<Context>& context,
                                                            ArgumentsValue& args) {
                   if (args.args.empty() || has_none(args.args[0])) fail("none is written as JSON");
                   return to_json.call(context, args);
                 }));
}

}  // namespace cria::converter
