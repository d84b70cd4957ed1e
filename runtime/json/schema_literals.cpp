#include "runtime/json/schema_literals.h"

#include <algorithm>

namespace cria::json {
namespace {

constexpr uint32_t kMostMembers = 512;  // of an object in const or enum

void put(Schema* schema, char c) { schema->text[schema->n_text++] = c; }

void put_characters(SchemaTables* tables, uint32_t value, uint32_t* hash) {
  const std::string_view raw = tables->text.raw(value);
  Schema* const schema = &tables->schema;
  for (size_t at = 0; at < raw.size();) {
    const uint32_t code = next_character(raw, &at);
    schema->n_text +=
        static_cast<uint32_t>(put_json_character(code, schema->text + schema->n_text));
    char utf8[4];
    const size_t n_bytes = put_utf8(code, utf8);
    for (size_t i = 0; i < n_bytes; ++i) *hash = add_to_hash(*hash, static_cast<uint8_t>(utf8[i]));
  }
}

Status check_names(const SchemaText& text, uint32_t object, Refusal* refusal) {
  const auto behind_member = [&](uint32_t name) { return text.next(name + 1); };
  uint32_t n = 0;
  for (uint32_t a = object + 1; a < text.next(object); a = behind_member(a)) {
    if (++n > kMostMembers) {
      *refusal = {text.offset(object), "has more than 512 members", {}};
      return Status::kTextTooLong;
    }
    for (uint32_t b = object + 1; b < a; b = behind_member(b)) {
      if (!same_characters(text.raw(a), text.raw(b))) continue;
      *refusal = {text.offset(a), "stands twice", text.raw(a)};
      return Status::kUnsupported;
    }
  }
  return Status::kOk;
}

}  // namespace

bool same_characters(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t k = 0;
  while (i < a.size() && k < b.size()) {
    if (next_character(a, &i) != next_character(b, &k)) return false;
  }
  return i == a.size() && k == b.size();
}

Status put_literal(SchemaTables* tables, uint32_t value, TextPart* part, Refusal* refusal) {
  struct Container {
    uint32_t end;
    bool is_object;
    bool is_named;  // a name was written, its value was not
    bool is_empty;
  };
  Container open[kMostSchemaNesting];
  size_t depth = 0;
  const SchemaText& text = tables->text;
  Schema* const schema = &tables->schema;
  uint32_t ignored_hash = 0;
  part->offset = schema->n_text;
  uint32_t i = value;
  do {
    Container* const in = depth > 0 ? &open[depth - 1] : nullptr;
    const bool is_name = in != nullptr && in->is_object && !in->is_named;
    if (in != nullptr) {
      if (!in->is_empty && !in->is_named) put(schema, ',');
      in->is_empty = false;
      in->is_named = is_name;
    }
    const char kind = text.kind(i);
    if (kind == '{' || kind == '[') {
      if (kind == '{') CRIA_TRY(check_names(text, i, refusal));
      open[depth++] = {text.next(i), kind == '{', false, true};
      put(schema, kind);
      ++i;
    } else {
      if (kind == '"') {
        put(schema, '"');
        put_characters(tables, i, &ignored_hash);
        put(schema, '"');
      } else {
        for (const char c : text.raw(i)) put(schema, c);
      }
      if (is_name) put(schema, ':');
      i = text.next(i);
    }
    while (depth > 0 && i == open[depth - 1].end) {
      put(schema, open[depth - 1].is_object ? '}' : ']');
      --depth;
    }
  } while (depth > 0);
  part->n_bytes = schema->n_text - part->offset;
  return Status::kOk;
}

TextPart put_name(SchemaTables* tables, uint32_t value, uint32_t* hash) {
  Schema* const schema = &tables->schema;
  TextPart part = {schema->n_text, 0};
  *hash = kHashStart;
  put_characters(tables, value, hash);
  put(schema, '"');
  part.n_bytes = schema->n_text - part.offset;
  return part;
}

}  // namespace cria::json
