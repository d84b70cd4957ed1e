#include "runtime/calls/grammar_tools.h"

#include <algorithm>

#include "quant/text/utf8.h"
#include "runtime/calls/call_reader.h"
#include "runtime/calls/grammar_rules.h"
#include "runtime/calls/marker.h"
#include "runtime/calls/tools.h"
#include "runtime/json/schema_literals.h"
#include "runtime/json/text_part.h"

namespace cria::calls {
namespace {

using format::CallKind;
using format::CallString;
using json::ArgumentStyle;
using json::kNone;
using json::Node;
using json::Property;
using json::Refusal;
using json::Schema;
using json::Strictness;
using json::TagValue;

// Why the form cannot write what a schema allows; null where it can.
constexpr const char* kNoObject = "has no object among its values, or only ones nested too deep";
constexpr const char* kHasOptions =
    "has alternatives, which the model's form of calls cannot write as arguments";
constexpr const char* kHasMark = "has a text that the model's form of calls ends values with";
constexpr const char* kHasText = "requires a string that the model's form of calls cannot write";
constexpr const char* kHasName =
    "requires a property whose name the model's form of calls cannot write";

class ToolCompiler {
 public:
  ToolCompiler(const ToolsToCompile& what, json::SchemaTables* tables, ToolRefusal* refusal)
      : what_(what),
        tables_(tables),
        schema_(&tables->schema),
        tools_(tables->text),
        style_(argument_style(*what.form)),
        mark_(value_mark(*what.form)),
        refusal_(refusal) {}

  Status compile(json::ToolEntry* entries, uint32_t* n_entries);

 private:
  Status refuse(uint32_t value, std::string_view keyword, const char* reason) {
    refusal_->refusal = {tables_->text.offset(value), reason, keyword};
    return Status::kUnsupported;
  }
  Status read_name(uint32_t tool, json::TextPart* name);
  Status compile_tool(uint32_t tool, uint32_t* node);
  Status compile_parameters(uint32_t value, Strictness strictness, uint32_t* node);
  uint32_t add_object(bool has_free_names);
  Status make_object(uint32_t value, uint32_t* node);
  Status check_texts(uint32_t value, uint32_t first, uint32_t root);
  Status check_names(uint32_t value, Node* node);
  [[nodiscard]] bool is_writable(std::string_view name) const;
  Status mark_values(uint32_t value, const Node& node);
  [[nodiscard]] bool has_text(uint32_t node, TagValue in_tags) const;
  [[nodiscard]] std::string_view literal(const Node& node, uint32_t i) const {
    return schema_->part(schema_->literals[node.first_literal + i]);
  }

  const ToolsToCompile& what_;
  json::SchemaTables* tables_;
  Schema* schema_;
  Tools tools_;
  ArgumentStyle style_;
  std::string_view mark_;
  ToolRefusal* refusal_;
};

Status ToolCompiler::read_name(uint32_t tool, json::TextPart* name) {
  const json::SchemaText& text = tables_->text;
  const uint32_t value = tools_.member(tool, "name");
  if (value == kNone || text.kind(value) != '"') {
    return refuse(tool, {}, "has a tool without a name");
  }
  const std::string_view raw = text.raw(value);
  refusal_->tool = raw;
  size_t n_bytes = 0;
  bool is_plain = true;
  for (size_t at = 0; at < raw.size();) {
    char utf8[4];
    n_bytes += json::put_utf8(json::next_character(raw, &at), utf8);
    is_plain = is_plain && is_name_byte(utf8[0]);
  }
  if (n_bytes == 0 || n_bytes > kMostNameBytes) {
    return refuse(value, "name", "must have 1 to 128 bytes");
  }
  if (!is_plain && what_.form->kind != CallKind::kJson) {
    return refuse(value, "name",
                  "has other characters than letters, digits, - _ . and /, which the model's form "
                  "of calls cannot write");
  }
  uint32_t hash = 0;
  *name = json::put_name(tables_, value, &hash);
  --name->n_bytes;  // the quote
  return Status::kOk;
}

uint32_t ToolCompiler::add_object(bool has_free_names) {
  Node node = {};
  node.kinds = json::kObject;
  node.pattern = kNone;
  node.first_alive = kNone;
  node.first_property = schema_->n_properties;
  node.additional = has_free_names ? json::kAnyNode : json::kNeverNode;
  node.depth = node.object_depth = 1;
  node.array_depth = json::kImpossible;
  schema_->nodes[schema_->n_nodes] = node;
  return schema_->n_nodes++;
}

Status ToolCompiler::compile_tool(uint32_t tool, uint32_t* node) {
  const uint32_t strict = tools_.member(tool, "strict");
  const bool is_strict = strict != kNone && tables_->text.kind(strict) == 't';
  const uint32_t parameters = tools_.member(tool, "parameters");
  *node = json::kAnyNode;
  if (!what_.has_calls) return Status::kOk;
  if (parameters == kNone || tables_->text.kind(parameters) == 'n') {
    *node = add_object(false);
    return Status::kOk;
  }
  if (strict != kNone && tables_->text.kind(strict) == 'f') {
    *node = add_object(true);
    return Status::kOk;
  }
  const Status status =
      compile_parameters(parameters, is_strict ? Strictness::kExact : Strictness::kLenient, node);
  if (status == Status::kOk || is_strict) return status;
  *node = add_object(true);
  refusal_->refusal = {};
  return Status::kOk;
}

Status ToolCompiler::compile_parameters(uint32_t value, Strictness strictness, uint32_t* node) {
  const uint32_t first = schema_->n_nodes;
  CRIA_TRY(json::add_schema(tables_, value, strictness, node, &refusal_->refusal));
  CRIA_TRY(make_object(value, node));
  return check_texts(value, first, *node);
}

// Arguments are an object, whatever else their schema allows.
Status ToolCompiler::make_object(uint32_t value, uint32_t* node) {
  const Node root = schema_->nodes[*node];
  const auto is_object = [](const Node& n) {
    return (n.kinds & json::kObject) != 0 && n.object_depth <= json::kMostDepth;
  };
  if (root.n_options == 0) {
    if (!is_object(root)) return refuse(value, "parameters", kNoObject);
    if (root.kinds == json::kObject) return Status::kOk;
    *node = schema_->n_nodes++;
    schema_->nodes[*node] = root;
    schema_->nodes[*node].kinds = json::kObject;
    schema_->nodes[*node].depth = root.object_depth;
    return Status::kOk;
  }
  if (style_ == ArgumentStyle::kPython || style_ == ArgumentStyle::kTagged) {
    return refuse(value, "parameters", kHasOptions);
  }
  const uint32_t* const options = schema_->links + root.first_option;
  const bool has_object = std::any_of(options, options + root.n_options, [&](uint32_t option) {
    return is_object(schema_->nodes[option]);
  });
  return has_object ? Status::kOk : refuse(value, "parameters", kNoObject);
}

// Nodes of a tool begin with first.
Status ToolCompiler::check_texts(uint32_t value, uint32_t first, uint32_t root) {
  if (style_ == ArgumentStyle::kJson) return Status::kOk;
  // Texts stand there as JSON has them.
  char written[6 * format::kMostCallTextBytes];
  size_t n_written = 0;
  for (std::string_view rest = mark_; !rest.empty();) {
    const Utf8Char c = decode_utf8(rest.data(), rest.size());
    n_written += json::put_json_character(c.code, written + n_written);
    rest.remove_prefix(c.n_bytes);
  }
  const auto has_mark = [&](std::string_view text) {
    return n_written > 0 && text.find({written, n_written}) != std::string_view::npos;
  };
  for (uint32_t i = first; i < schema_->n_nodes; ++i) {
    Node& node = schema_->nodes[i];
    for (uint32_t k = 0; k < node.n_literals; ++k) {
      if (has_mark(literal(node, k))) return refuse(value, "parameters", kHasMark);
    }
    for (uint32_t k = 0; k < node.n_properties; ++k) {
      const Property& p = schema_->properties[node.first_property + k];
      if (has_mark(schema_->part(p.name))) return refuse(value, "parameters", kHasMark);
    }
    if (style_ == ArgumentStyle::kMarked) CRIA_TRY(check_names(value, &node));
  }
  if (style_ == ArgumentStyle::kMarked) return Status::kOk;
  Node& node = schema_->nodes[root];
  if (style_ == ArgumentStyle::kTagged) CRIA_TRY(mark_values(value, node));
  return check_names(value, &node);
}

// A name that cannot be written is one that nobody asks for.
Status ToolCompiler::check_names(uint32_t value, Node* node) {
  for (uint32_t i = 0; i < node->n_properties; ++i) {
    Property& p = schema_->properties[node->first_property + i];
    std::string_view name = schema_->part(p.name);
    name.remove_suffix(1);
    if (is_writable(name)) continue;
    if (p.reach == i) return refuse(value, "parameters", kHasName);
    p.node = json::kNeverNode;
  }
  return Status::kOk;
}

// name: as it stands in JSON.
bool ToolCompiler::is_writable(std::string_view name) const {
  if (name.empty() || name.size() > kMostHeaderBytes) return false;
  if (name.find('\\') != std::string_view::npos) return false;
  if (style_ == ArgumentStyle::kTagged) {
    const std::string_view key_end = what_.form->text(CallString::kKeyEnd);
    return name.find(key_end.front()) == std::string_view::npos &&
           name.find(without_blanks(key_end).front()) == std::string_view::npos &&
           without_blanks(name) == name;
  }
  if (name.front() == '(' || name.front() == '\'' || name.front() == '"') return false;
  if (!mark_.empty() && name.front() == mark_.front()) return false;
  return name.find_first_of(" \n\t\r:=),}]") == std::string_view::npos;
}

// Which values of arguments have no quotes is what a reader takes for text.
Status ToolCompiler::mark_values(uint32_t value, const Node& node) {
  const uint32_t properties = tools_.member(value, "properties");
  const bool is_there =
      node.source == value && properties != kNone && tables_->text.kind(properties) == '{';
  if (!is_there) return Status::kOk;
  uint32_t i = 0;
  for (uint32_t name = properties + 1;
       name < tables_->text.next(properties) && i < node.n_properties;
       name = tables_->text.next(name + 1), ++i) {
    Property& p = schema_->properties[node.first_property + i];
    switch (tools_.kind_of_schema(name + 1)) {
      case ParameterKind::kAny:
        p.in_tags = TagValue::kJson;
        continue;
      case ParameterKind::kText:
        p.in_tags = TagValue::kText;
        break;
      case ParameterKind::kTextOrNull:
        p.in_tags = TagValue::kTextOrNull;
        break;
    }
    if (schema_->nodes[p.node].depth > json::kMostDepth || has_text(p.node, p.in_tags)) continue;
    if (p.reach == i) return refuse(name + 1, "parameters", kHasText);
    p.node = json::kNeverNode;
  }
  return Status::kOk;
}

// Whether a node has a string that can be written without quotes, and is read as it was meant.
bool ToolCompiler::has_text(uint32_t id, TagValue in_tags) const {
  bool has_null = false;
  bool has_string = false;
  bool has_null_text = false;  // that would be read as null
  const auto look = [&](const Node& leaf) {
    has_null = has_null || (leaf.kinds & json::kNull) != 0;
    has_string = has_string || (leaf.kinds & json::kString) != 0;
    has_null_text = has_null_text || (leaf.kinds & json::kString) != 0;
    for (uint32_t k = 0; k < leaf.n_literals; ++k) {
      std::string_view text = literal(leaf, k);
      has_null = has_null || text == "null";
      if (text[0] != '"') continue;
      has_string = true;
      text = without_blanks(json::part_of(text, 1, text.size() - 2));
      has_null_text = has_null_text || text == "null" || text == "None";
    }
  };
  const Node& node = schema_->nodes[id];
  if (node.n_options == 0) look(node);
  for (uint32_t i = 0; i < node.n_options; ++i) {
    look(schema_->nodes[schema_->links[node.first_option + i]]);
  }
  if (in_tags == TagValue::kText) return has_string;
  return has_null || (has_string && !has_null_text);
}

Status ToolCompiler::compile(json::ToolEntry* entries, uint32_t* n_entries) {
  *n_entries = 0;
  if (tables_->text.kind(Tools::kList) != '[') {
    return refuse(Tools::kList, {}, "is not a list of tools");
  }
  tables_->excluded = mark_.empty() ? '\0' : mark_.front();
  for (uint32_t i = tools_.next_tool(Tools::kList); i != kNone; i = tools_.next_tool(i)) {
    const uint32_t tool = tools_.function_of(i);
    json::ToolEntry& entry = entries[*n_entries];
    refusal_->tool = {};
    CRIA_TRY(read_name(tool, &entry.name));
    if (what_.only != nullptr && !tools_.is_text(tools_.member(tool, "name"), *what_.only))
      continue;
    CRIA_TRY(compile_tool(tool, &entry.node));
    ++*n_entries;
  }
  refusal_->tool = {};
  std::sort(entries, entries + *n_entries, [this](const auto& a, const auto& b) {
    return schema_->part(a.name) < schema_->part(b.name);
  });
  for (uint32_t i = 1; i < *n_entries; ++i) {
    if (schema_->part(entries[i].name) != schema_->part(entries[i - 1].name)) continue;
    refusal_->tool = schema_->part(entries[i].name);
    return refuse(Tools::kList, "name", "appears twice");
  }
  return Status::kOk;
}

}  // namespace

Status compile_tools(const ToolsToCompile& what, json::SchemaTables* tables,
                     json::ToolEntry* entries, uint32_t* n_entries, ToolRefusal* refusal) {
  return ToolCompiler(what, tables, refusal).compile(entries, n_entries);
}

}  // namespace cria::calls
