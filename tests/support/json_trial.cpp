#include "tests/support/json_trial.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "quant/text/utf8.h"

namespace cria::test {
namespace {

using Json = nlohmann::json;

uint64_t bytes_for(std::string_view schema, json::Refusal* refusal, Status* status) {
  uint64_t n_bytes = 0;
  *status = json::schema_bytes(schema, &n_bytes, refusal);
  return *status == Status::kOk ? n_bytes : 64;
}

std::wstring wide(const std::string& text) {
  std::wstring out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text.data() + at, text.size() - at);
    out += static_cast<wchar_t>(c.code);
    at += c.n_bytes;
  }
  return out;
}

bool has_type(const std::string& type, const Json& value) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return value.is_number();
  if (type != "integer" || !value.is_number()) return false;
  return value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>();
}

const Json& pointed(const Json& root, const std::string& reference) {
  return root.at(Json::json_pointer(reference.substr(1)));
}

// Doubles are coarser than the decimals that are written: what is equal as a double counts as
// within an exclusive bound too, unless it is an integer.
bool within(const Json& schema, const Json& value) {
  const auto x = value.get<double>();
  const bool exact = value.is_number_integer();
  const auto bound = [&](const char* name) { return schema.at(name).get<double>(); };
  if (schema.contains("minimum") && x < bound("minimum")) return false;
  if (schema.contains("maximum") && x > bound("maximum")) return false;
  if (schema.contains("exclusiveMinimum") &&
      (x < bound("exclusiveMinimum") || (exact && x == bound("exclusiveMinimum")))) {
    return false;
  }
  return !schema.contains("exclusiveMaximum") ||
         (x <= bound("exclusiveMaximum") && !(exact && x == bound("exclusiveMaximum")));
}

bool string_fits(const Json& schema, const Json& value) {
  const std::wstring text = wide(value.get<std::string>());
  if (text.size() < schema.value("minLength", size_t{0})) return false;
  if (text.size() > schema.value("maxLength", SIZE_MAX)) return false;
  if (!schema.contains("pattern")) return true;
  return std::regex_search(text, std::wregex(wide(schema.at("pattern").get<std::string>())));
}

bool array_fits(const Json& schema, const Json& root, const Json& value) {
  if (value.size() < schema.value("minItems", size_t{0})) return false;
  if (value.size() > schema.value("maxItems", SIZE_MAX)) return false;
  const Json prefix = schema.value("prefixItems", Json::array());
  for (size_t i = 0; i < value.size(); ++i) {
    if (i < prefix.size() && !satisfies(prefix[i], root, value[i])) return false;
    const bool is_item = i >= prefix.size() && schema.contains("items");
    if (is_item && !satisfies(schema.at("items"), root, value[i])) return false;
  }
  return true;
}

bool object_fits(const Json& schema, const Json& root, const Json& value) {
  const Json properties = schema.value("properties", Json::object());
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  for (const auto& [name, member] : value.items()) {
    if (properties.contains(name)) {
      if (!satisfies(properties.at(name), root, member)) return false;
    } else if (schema.contains("additionalProperties") &&
               !satisfies(schema.at("additionalProperties"), root, member)) {
      return false;
    }
  }
  return true;
}

size_t count_satisfied(const Json& schemas, const Json& root, const Json& value) {
  return static_cast<size_t>(std::count_if(
      schemas.begin(), schemas.end(), [&](const Json& s) { return satisfies(s, root, value); }));
}

}  // namespace

JsonTrial::JsonTrial(const char* schema, size_t n_bytes)
    : memory_(bytes_for({schema, n_bytes}, &refusal_, &status_)),
      room_(json::Walk::readings_for(1)),
      frame_room_(json::Walk::frames_for(1)) {
  if (status_ != Status::kOk) return;
  status_ = json::compile_schema({schema, n_bytes},
                                 {static_cast<uint8_t*>(memory_.data()), memory_.size()}, &schema_,
                                 &refusal_);
  if (status_ == Status::kOk) begin();
}

json::Walk JsonTrial::walk() {
  json::Walk walk(&schema_, room_.data(), static_cast<uint32_t>(room_.size()), frame_room_.data(),
                  static_cast<uint32_t>(frame_room_.size()));
  walk.begin(readings_, n_readings_, frames_, n_frames_);
  return walk;
}

void JsonTrial::begin() {
  json::Walk w = walk();
  w.begin_document();
  w.save(0, readings_, &n_readings_, frames_, &n_frames_);
}

bool JsonTrial::step(char byte) {
  json::Walk w = walk();
  if (!w.step(0, byte)) return false;
  w.save(1, readings_, &n_readings_, frames_, &n_frames_);
  return true;
}

bool JsonTrial::can_step(char byte) { return walk().step(0, byte); }

bool JsonTrial::may_end() const {
  return std::any_of(readings_, readings_ + n_readings_, [](const json::Reading& r) {
    return r.phase == json::Phase::kBehind && r.frame == json::kNoFrame;
  });
}

bool JsonTrial::takes_beginning(std::string_view text) {
  begin();
  return std::all_of(text.begin(), text.end(), [this](char c) { return step(c); });
}

bool JsonTrial::takes(std::string_view document) { return takes_beginning(document) && may_end(); }

std::optional<std::string> random_document(JsonTrial* trial, std::mt19937* random) {
  constexpr size_t kLong = 400;
  constexpr size_t kTooLong = 4000;
  std::string text;
  trial->begin();
  for (;;) {
    const bool hurries = text.size() > kLong;
    if (trial->may_end() && (hurries || (*random)() % 4 == 0)) return text;
    std::string allowed;
    for (int c = 0; c < 256; ++c) {
      if (trial->can_step(static_cast<char>(c))) allowed += static_cast<char>(c);
    }
    if (allowed.empty()) return trial->may_end() ? text : std::string();
    // Quotes before brackets, which are characters like others inside a string; and what patterns
    // of random schemas wait for.
    const std::string_view wanted = (*random)() % 2 == 0 ? "\"xa]}" : "\"ax]}";
    char chosen = allowed[(*random)() % allowed.size()];
    if (hurries || (*random)() % 4 == 0) {
      const size_t at = wanted.find_first_of(allowed);
      if (at != std::string_view::npos) chosen = wanted[at];
    }
    if (text.size() == kTooLong) return std::nullopt;
    if (!trial->step(chosen)) return std::string();
    text += chosen;
  }
}

nlohmann::json parse_strictly(const std::string& text) {
  std::vector<std::set<std::string>> names;
  bool is_twice = false;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key) {
      is_twice = is_twice || !names.back().insert(value.get<std::string>()).second;
    }
    return true;
  };
  Json parsed = Json::parse(text, watch, false);
  return is_twice ? Json(Json::value_t::discarded) : parsed;
}

bool satisfies(const nlohmann::json& schema, const nlohmann::json& root,
               const nlohmann::json& value) {
  // A schema that asks itself about the same value says nothing.
  static std::set<std::pair<const Json*, const Json*>> asked;
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const Json& target = pointed(root, schema.at("$ref").get<std::string>());
    const auto question = std::pair(&target, &value);
    if (!asked.insert(question).second) return false;
    const bool holds = satisfies(target, root, value);
    asked.erase(question);
    return holds;
  }
  if (schema.contains("type")) {
    const Json types = schema.at("type").is_array() ? schema.at("type") : Json{schema.at("type")};
    if (std::none_of(types.begin(), types.end(),
                     [&](const Json& t) { return has_type(t.get<std::string>(), value); })) {
      return false;
    }
  }
  if (schema.contains("const") && schema.at("const") != value) return false;
  if (schema.contains("enum")) {
    const Json& listed = schema.at("enum");
    if (std::find(listed.begin(), listed.end(), value) == listed.end()) return false;
  }
  if (schema.contains("anyOf") && count_satisfied(schema.at("anyOf"), root, value) == 0) {
    return false;
  }
  if (schema.contains("oneOf") && count_satisfied(schema.at("oneOf"), root, value) != 1) {
    return false;
  }
  if (schema.contains("allOf") &&
      count_satisfied(schema.at("allOf"), root, value) != schema.at("allOf").size()) {
    return false;
  }
  if (value.is_number()) return within(schema, value);
  if (value.is_string()) return string_fits(schema, value);
  if (value.is_array()) return array_fits(schema, root, value);
  return !value.is_object() || object_fits(schema, root, value);
}

namespace {

using Ordered = nlohmann::ordered_json;

class SchemaMaker {
 public:
  explicit SchemaMaker(std::mt19937* random) : random_(random) {}

  Ordered make() {
    Ordered defs = Ordered::object();
    defs["a"] = value(2);
    defs["b"] = value(1);
    Ordered root = value(0);
    if (!root.is_object() || root.contains("$ref")) root = {{"anyOf", {root}}};
    root["$defs"] = defs;
    return root;
  }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((*random_)()) % n; }

  Ordered literal() {
    static const Ordered kLiterals[] = {
        nullptr,
        true,
        1,
        12,
        -3,
        1.5,
        "a",
        "ab",
        "\"\\\n",
        "\u00e9\U0001f600",
        Ordered::array({1, Ordered::object({{"b", nullptr}, {"a", ""}})}),
        Ordered::object()};
    return kLiterals[below(std::size(kLiterals))];
  }
  Ordered number(const char* type) {
    static const Ordered kBounds[] = {-100, -3.5, -1, 0, 0.25, 1, 7, 10, 99, 1e3, 12345.678};
    Ordered s = {{"type", type}};
    if (below(3) != 0) s[below(2) == 0 ? "minimum" : "exclusiveMinimum"] = kBounds[below(6)];
    if (below(3) != 0) s[below(2) == 0 ? "maximum" : "exclusiveMaximum"] = kBounds[5 + below(6)];
    return s;
  }
  Ordered string() {
    static const char* const kPatterns[] = {"^[a-c]{2,4}$",
                                            "x",
                                            "^(foo|ba[rz])+$",
                                            "^\\d{4}-\\d\\d$",
                                            "[^a-z]$",
                                            "^.$",
                                            "^\\w+@\\w+$",
                                            "^",
                                            "^a?b*c+\\.\"$",
                                            "^(?:[\u00e0-\u00ff]|\\t)*$",
                                            "a$|^b"};
    Ordered s = {{"type", "string"}};
    if (below(3) == 0) {
      s["pattern"] = kPatterns[below(std::size(kPatterns))];
      return s;
    }
    if (below(2) == 0) s["minLength"] = below(4);
    if (below(2) == 0) s["maxLength"] = 4 + below(4);
    return s;
  }
  Ordered array(uint32_t depth) {
    Ordered s = {{"type", "array"}};
    if (below(4) != 0) s["items"] = value(depth + 1);
    if (below(3) == 0) s["prefixItems"] = {value(depth + 1), value(depth + 1)};
    if (below(2) == 0) s["minItems"] = below(4);
    if (below(2) == 0) s["maxItems"] = 3 + below(3);
    return s;
  }
  Ordered object(uint32_t depth) {
    static const char* const kNames[] = {"a", "ab", "name", "\u00e9\"", "", "b", "value"};
    Ordered s = {{"type", "object"}};
    Ordered properties = Ordered::object();
    Ordered required = Ordered::array();
    for (const char* const name : kNames) {
      if (below(3) == 0) properties[name] = value(depth + 1);
      if (below(4) == 0) required.push_back(name);
    }
    if (below(5) != 0) s["properties"] = properties;
    if (below(2) == 0) s["required"] = required;
    if (below(2) == 0) s["additionalProperties"] = value(depth + 1);
    return s;
  }
  Ordered options(uint32_t depth) {
    Ordered list = Ordered::array();
    for (uint32_t n = 1 + below(4); n > 0; --n) list.push_back(value(depth + 1));
    return {{"anyOf", list}};
  }
  Ordered value(uint32_t depth) {
    switch (below(depth > 3 ? 7 : 13)) {
      case 0:
        return {{"const", literal()}};
      case 1:
        return {{"enum", {literal(), literal(), literal()}}};
      case 2:
        return number("integer");
      case 3:
        return number("number");
      case 4:
        return string();
      case 5:
        return {{"type", {"boolean", "null", "integer"}}, {"maximum", 5}};
      case 6:
        return below(6) == 0 ? Ordered(false) : Ordered(true);
      case 7:
        return {{"$ref", below(2) == 0 ? "#/$defs/a" : below(2) == 0 ? "#/$defs/b" : "#"}};
      case 8:
        return options(depth);
      case 9:
        return array(depth);
      case 10:
        return {{"oneOf", {string(), array(depth)}}};
      default:
        return object(depth);
    }
  }

  std::mt19937* random_;
};

}  // namespace

std::string random_schema(std::mt19937* random) { return SchemaMaker(random).make().dump(); }

}  // namespace cria::test
