#include "runtime/json/schema_literals.h"

#include "runtime/json/schema_names.h"

namespace cria::json {
namespace {

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

}  // namespace

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
      const uint32_t twin = kind == '{' ? find_twin(*tables, i) : kNone;
      if (twin != kNone) {
        *refusal = {text.offset(twin), "appears twice", text.raw(twin)};
        return Status::kUnsupported;
      }
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
