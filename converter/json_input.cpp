#include "converter/json_input.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "converter/error.h"
#include "platforms/hosted/base/json_source.h"

namespace cria::converter {
namespace {

constexpr size_t kMaxDepth = 32;
constexpr size_t kShownValueBytes = 40;

// Numbers that are no JSON, but that Python's json writes and reads.
struct PythonNumber {
  std::string_view text;
  double value;
};
constexpr PythonNumber kPythonNumbers[] = {
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", std::numeric_limits<double>::infinity()},
    {"-Infinity", -std::numeric_limits<double>::infinity()},
};

// One that stands in a text, after so many texts: keys and values.
struct PlacedNumber {
  size_t n_texts;
  double value;
};

// What the library reads: where such a number stands it finds an empty text.
struct PlainJson {
  std::string_view text;  // as long as the whole one, so that places stay
  std::string changed;    // where there are such numbers
  std::vector<PlacedNumber> numbers;
};

const PythonNumber* python_number(std::string_view text) {
  if (text[0] != 'N' && text[0] != 'I' && text[0] != '-') return nullptr;
  const auto* const found =
      std::find_if(std::begin(kPythonNumbers), std::end(kPythonNumbers),
                   [&](const PythonNumber& number) { return text.starts_with(number.text); });
  return found == std::end(kPythonNumbers) ? nullptr : found;
}

// Of more numbers than the values that are read, those after stay.
void replace_python_numbers(std::string_view whole, size_t max_values, PlainJson* plain) {
  plain->text = whole;
  size_t n_texts = 0;
  for (size_t at = 0; at < whole.size() && plain->numbers.size() <= max_values; ++at) {
    if (whole[at] == '"') {
      ++n_texts;
      for (++at; at < whole.size() && whole[at] != '"'; ++at) at += whole[at] == '\\' ? 1 : 0;
      continue;
    }
    const PythonNumber* const number = python_number(whole.substr(at));
    if (number == nullptr) continue;
    if (plain->changed.empty()) plain->changed = whole;
    constexpr std::string_view kNothing = R"(""       )";
    plain->changed.replace(at, number->text.size(), kNothing.substr(0, number->text.size()));
    plain->numbers.push_back({n_texts++, number->value});
    at += number->text.size() - 1;
  }
  if (!plain->changed.empty()) plain->text = plain->changed;
}

// Builds the value from the parser's events. The members of an object are sorted when it ends:
// putting each in its place at once takes several times as long where there are a million.
class TreeBuilder {
 public:
  // numbers, which must outlive this, has those in whose place there are texts.
  TreeBuilder(const std::string& where, size_t max_values, std::span<const PlacedNumber> numbers)
      : where_(where), max_values_(max_values), numbers_(numbers) {}

  [[nodiscard]] Json take() { return std::move(root_); }

  // The parser's interface: false would end it.
  bool null() { return put(Json(nullptr)); }
  bool boolean(bool value) { return put(Json(value)); }
  bool number_integer(Json::number_integer_t value) { return put(Json(value)); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(Json(value)); }
  bool number_float(Json::number_float_t value, const std::string&) { return put(Json(value)); }
  bool string(std::string& value) {
    const std::optional<double> number = next_text_as_number();
    return put(number ? Json(*number) : Json(std::move(value)));
  }
  bool binary(Json::binary_t& value) { return put(Json(std::move(value))); }
  bool key(std::string& name) {
    if (next_text_as_number()) refuse("not valid JSON: a number is not a key");
    open_[depth_ - 1].members.emplace_back(std::move(name), nullptr);
    return true;
  }
  bool start_object(size_t) { return enter(Kind::kObject); }
  bool start_array(size_t) { return enter(Kind::kArray); }
  bool end_object() {
    Members& members = open_[depth_ - 1].members;
    Json::object_t object;
    for (const size_t place : sorted_by_key(members)) {
      Member& member = members[place];
      if (!object.empty() && std::prev(object.end())->first == member.first) {
        refuse("key '" + shown(member.first) + "' appears twice");
      }
      object.emplace_hint(object.end(), std::move(member));
    }
    members.clear();
    --depth_;
    place(Json(std::move(object)));
    return true;
  }
  bool end_array() {
    Json::array_t list = std::exchange(open_[--depth_].items, {});
    place(Json(std::move(list)));
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& e) {
    constexpr int kNumberOverflow = 406;  // nlohmann's number of this error
    if (e.id == kNumberOverflow) refuse("JSON value out of range");
    throw_no_json(position);
  }
  [[noreturn]] void throw_no_json(size_t position) const {
    refuse("not valid JSON at byte " + std::to_string(position) + "; download it again");
  }

 private:
  using Member = std::pair<std::string, Json>;
  using Members = std::vector<Member>;
  enum class Kind { kObject, kArray };

  // An object or a list whose end has not come yet.
  struct Open {
    Kind kind;
    Members members;
    Json::array_t items;
  };

  // The first eight bytes of a text, as a number that is ordered as they are.
  static uint64_t beginning_of(const std::string& text) {
    constexpr size_t kBytes = sizeof(uint64_t);
    constexpr int kByteBits = 8;
    uint64_t number = 0;
    for (size_t i = 0; i < kBytes; ++i) {
      number = number << kByteBits | (i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
    }
    return number;
  }
  // The places of members in the order of their keys. Most comparisons need no key, which may be
  // anywhere in memory.
  static std::vector<size_t> sorted_by_key(const Members& members) {
    std::vector<std::pair<uint64_t, size_t>> order;
    order.reserve(members.size());
    for (const Member& member : members) {
      order.emplace_back(beginning_of(member.first), order.size());
    }
    std::sort(order.begin(), order.end(), [&members](const auto& x, const auto& y) {
      return x.first != y.first ? x.first < y.first
                                : members[x.second].first < members[y.second].first;
    });
    std::vector<size_t> places;
    places.reserve(order.size());
    for (const auto& entry : order) places.push_back(entry.second);
    return places;
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw ProgramError(ExitCode::kInvalidInput, where_ + ": " + problem);
  }
  std::optional<double> next_text_as_number() {
    const size_t place = n_texts_++;
    if (numbers_.empty() || numbers_.front().n_texts != place) return std::nullopt;
    const double value = numbers_.front().value;
    numbers_ = numbers_.subspan(1);
    return value;
  }
  void count() {
    if (++n_values_ > max_values_) {
      refuse("more than " + std::to_string(max_values_) + " JSON values");
    }
  }
  void place(Json value) {
    if (depth_ == 0) {
      root_ = std::move(value);
    } else if (open_[depth_ - 1].kind == Kind::kObject) {
      open_[depth_ - 1].members.back().second = std::move(value);
    } else {
      open_[depth_ - 1].items.push_back(std::move(value));
    }
  }
  bool put(Json value) {
    count();
    place(std::move(value));
    return true;
  }
  bool enter(Kind kind) {
    count();
    if (depth_ == kMaxDepth) {
      refuse("JSON nested too deeply; at most " + std::to_string(kMaxDepth) + " levels are read");
    };
    open_[depth_++].kind = kind;
    return true;
  }

  const std::string& where_;
  size_t max_values_;
  std::span<const PlacedNumber> numbers_;  // those ahead
  size_t n_texts_ = 0;
  size_t n_values_ = 0;
  size_t depth_ = 0;
  std::array<Open, kMaxDepth> open_;  // depth_ of them
  Json root_;
};

// What a message shows of a value: lists and objects by their size, for text of theirs can be long.
std::string shown_value(const Json& value) {
  if (value.is_structured()) {
    return std::string(value.is_array() ? "a list of " : "an object of ") +
           std::to_string(value.size());
  }
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const double number = value.get<double>();
    return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }
  std::string text;
  if (value.is_string()) {
    const auto& whole = value.get_ref<const std::string&>();
    text =
        Json(whole.substr(0, kShownValueBytes)).dump(-1, ' ', true, Json::error_handler_t::replace);
    if (whole.size() > kShownValueBytes) text += "...";
    return text;
  }
  return value.dump();
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where, size_t max_values) {
  const hosted::JsonSource source = hosted::json_source(text);
  PlainJson plain;
  replace_python_numbers(source.text, max_values, &plain);
  TreeBuilder builder(where, max_values, plain.numbers);
  if (source.end_of_wrong != 0) builder.throw_no_json(source.end_of_wrong);
  // Every error is thrown.
  (void)Json::sax_parse(plain.text, &builder);
  return builder.take();
}

std::vector<std::string> keys_in_file_order(std::string_view text, std::string_view object) {
  std::vector<std::string> keys;
  bool is_inside = false;
  const auto note = [&](int depth, Json::parse_event_t event, Json& name) {
    if (event != Json::parse_event_t::key) return true;
    if (depth == 1) is_inside = name == object;
    if (depth == 2 && is_inside) keys.push_back(name.get<std::string>());
    return true;
  };
  PlainJson plain;
  replace_python_numbers(hosted::json_source(text).text, kMaxJsonValues, &plain);
  [[maybe_unused]] const Json known = Json::parse(plain.text, note);
  return keys;
}

JsonObject::JsonObject(const Json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) {
    throw ProgramError(ExitCode::kInvalidInput,
                       where_ + ": expected a JSON object, found " + object.type_name());
  }
}

JsonObject::JsonObject(const Json& object, std::string where, const KeyNames& names)
    : JsonObject(object, std::move(where)) {
  names_ = &names;
}

std::string JsonObject::name_of(std::string_view key) const {
  if (names_ == nullptr || names_->empty()) return std::string(key);
  std::string name = path_ + std::string(key);
  if (const auto found = names_->find(name); found != names_->end()) return found->second;
  // Within an object the outermost one may have a name: "text_config.rope_scaling.factor".
  const size_t end = std::min(name.find('.'), name.size());
  const auto outermost = names_->find(name.substr(0, end));
  if (outermost != names_->end()) name.replace(0, end, outermost->second);
  return name;
}

const Json* JsonObject::find(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::has(std::string_view key) const { return find(key) != nullptr; }

bool JsonObject::contains(std::string_view key) const { return object_->contains(key); }

bool JsonObject::is_on(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<double>() != 0;
  if (value->is_string()) return !value->get_ref<const std::string&>().empty();
  return !value->empty();
}

void JsonObject::refuse(std::string_view key, const std::string& problem) const {
  throw ProgramError(ExitCode::kInvalidInput, where_ + ": " + shown(name_of(key)) + " " + problem);
}

void JsonObject::refuse_type(std::string_view key, const char* expected, const Json& found) const {
  refuse(key, std::string("must be ") + expected + ", found " + shown_value(found));
}

uint32_t JsonObject::count_value(std::string_view key, const Json& value) const {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMost) {
    refuse_type(key, "a whole number from 0 to 4294967295", value);
  }
  return value.get<uint32_t>();
}

std::optional<uint32_t> JsonObject::count(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return count_value(key, *value);
}

double JsonObject::number_value(std::string_view key, const Json& value) const {
  constexpr double kMost = static_cast<double>(std::numeric_limits<float>::max());
  if (!value.is_number() || !(std::fabs(value.get<double>()) <= kMost)) {
    refuse_type(key, "a number that a float can hold", value);
  }
  return value.get<double>();
}

std::optional<double> JsonObject::number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return number_value(key, *value);
}

std::optional<std::vector<double>> JsonObject::numbers(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse_type(key, "a list of numbers", *value);
  std::vector<double> out;
  for (const Json& item : *value) out.push_back(number_value(key, item));
  return out;
}

std::optional<bool> JsonObject::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_type(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> JsonObject::text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_type(key, "a text", *value);
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> JsonObject::texts(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse_type(key, "a list of texts", *value);
  std::vector<std::string> out;
  for (const Json& item : *value) {
    if (!item.is_string()) refuse_type(key, "a list of texts", item);
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::optional<std::vector<uint32_t>> JsonObject::counts(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return std::vector<uint32_t>{count_value(key, *value)};
  std::vector<uint32_t> out;
  for (const Json& item : *value) out.push_back(count_value(key, item));
  return out;
}

std::optional<JsonObject> JsonObject::object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse_type(key, "an object", *value);
  // Where keys have names of their own, these name the object, too.
  const bool is_named = names_ != nullptr && !names_->empty();
  JsonObject inside(*value, is_named ? where_ : where_ + ": " + shown(key));
  inside.names_ = names_;
  inside.path_ = path_ + std::string(key) + ".";
  return inside;
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_->items()) {
    if (!value.is_null()) keys.push_back(key);
  }
  return keys;
}

uint32_t JsonObject::required_count(std::string_view key) const {
  const std::optional<uint32_t> value = count(key);
  if (!value) refuse(key, "is missing");
  return *value;
}

double JsonObject::required_number(std::string_view key) const {
  const std::optional<double> value = number(key);
  if (!value) refuse(key, "is missing");
  return *value;
}

}  // namespace cria::converter
