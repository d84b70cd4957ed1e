#include "runtime/calls/tools.h"

#include "quant/text/utf8.h"

namespace cria::calls {
namespace {

using json::kNone;

// What a schema allows, in bits; 0: it does not say.
constexpr uint32_t kString = 1;
constexpr uint32_t kNull = 2;
constexpr uint32_t kOther = 4;

}  // namespace

Status Tools::count(std::string_view text, size_t* n_values) {
  json::SchemaCounts counts = {};
  json::Refusal refusal = {};
  CRIA_TRY(json::read_schema_text(text, nullptr, &counts, &refusal));
  *n_values = counts.n_values;
  return Status::kOk;
}

Status Tools::read(std::string_view text, json::SchemaValue* values, Tools* tools) {
  json::SchemaCounts counts = {};
  json::Refusal refusal = {};
  CRIA_TRY(json::read_schema_text(text, values, &counts, &refusal));
  tools->text_ = {text, values};
  tools->is_empty_ = false;
  return tools->text_.kind(kList) == '[' ? Status::kOk : Status::kUnsupported;
}

bool Tools::is_text(uint32_t value, std::string_view text) const {
  if (value == kNone || text_.kind(value) != '"') return false;
  const std::string_view raw = text_.raw(value);
  size_t at = 0;
  while (at < raw.size() && !text.empty()) {
    const Utf8Char c = decode_utf8(text.data(), text.size());
    if (json::next_character(raw, &at) != c.code) return false;
    text.remove_prefix(c.n_bytes);
  }
  return at == raw.size() && text.empty();
}

uint32_t Tools::member(uint32_t object, std::string_view key) const {
  if (object == kNone || text_.kind(object) != '{') return kNone;
  uint32_t found = kNone;
  for (uint32_t i = object + 1; i < text_.next(object); i = text_.next(i + 1)) {
    if (is_text(i, key)) found = i + 1;  // the last of several, as JSON's readers have it
  }
  return found;
}

uint32_t Tools::find(std::string_view name) const {
  if (is_empty_) return kNone;
  for (uint32_t i = next_tool(kList); i != kNone; i = next_tool(i)) {
    const uint32_t tool = function_of(i);
    if (is_text(member(tool, "name"), name)) return tool;
  }
  return kNone;
}

uint32_t Tools::next_tool(uint32_t tool) const {
  const uint32_t next = tool == kList ? kList + 1 : text_.next(tool);
  return next < text_.next(kList) ? next : kNone;
}

uint32_t Tools::function_of(uint32_t tool) const {
  const uint32_t inner = member(tool, "function");
  return inner != kNone ? inner : tool;
}

uint32_t Tools::plain_types(uint32_t schema) const {
  const auto named = [this](uint32_t type) {
    return is_text(type, "string") ? kString : is_text(type, "null") ? kNull : kOther;
  };
  uint32_t all = 0;
  if (const uint32_t type = member(schema, "type"); type != kNone) {
    if (text_.kind(type) != '[') return named(type);
    for (uint32_t i = type + 1; i < text_.next(type); i = text_.next(i)) all |= named(i);
    return all;
  }
  const uint32_t values = member(schema, "enum");
  if (values == kNone || text_.kind(values) != '[') return 0;
  for (uint32_t i = values + 1; i < text_.next(values); i = text_.next(i)) {
    all |= text_.kind(i) == '"' ? kString : text_.kind(i) == 'n' ? kNull : kOther;
  }
  return all;
}

uint32_t Tools::types(uint32_t schema) const {
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    const uint32_t list = member(schema, key);
    if (list == kNone || text_.kind(list) != '[') continue;
    uint32_t all = 0;
    for (uint32_t i = list + 1; i < text_.next(list); i = text_.next(i)) {
      const uint32_t of_one = plain_types(i);
      all |= of_one == 0 ? kOther : of_one;
    }
    return all;
  }
  return plain_types(schema);
}

ParameterKind Tools::kind_of(std::string_view name, std::string_view key) const {
  const uint32_t parameters = member(find(name), "parameters");
  return kind_of_schema(member(member(parameters, "properties"), key));
}

ParameterKind Tools::kind_of_schema(uint32_t schema) const {
  const uint32_t all = types(schema);
  if (all == kString) return ParameterKind::kText;
  return all == (kString | kNull) ? ParameterKind::kTextOrNull : ParameterKind::kAny;
}

}  // namespace cria::calls
