// From the text of a schema to nodes, without recursion: a schema that is met gets a node, and the
// nodes are read one after the other.
#include "runtime/json/schema.h"

#include <algorithm>
#include <iterator>

#include "runtime/json/formats.h"
#include "runtime/json/schema_literals.h"
#include "runtime/json/schema_names.h"
#include "runtime/json/schema_tables.h"
#include "runtime/json/text_part.h"

namespace cria::json {
namespace {

enum Keyword : uint32_t {
  kType,
  kEnum,
  kConst,
  kAnyOf,
  kOneOf,
  kAllOf,
  kRef,
  kProperties,
  kRequired,
  kAdditional,
  kItems,
  kPrefixItems,
  kMinItems,
  kMaxItems,
  kMinLength,
  kMaxLength,
  kPattern,
  kFormat,
  kNullable,
  kMultipleOf,
  kMinimum,
  kMaximum,
  kExclusiveMinimum,
  kExclusiveMaximum,
  kKeywords
};
constexpr std::string_view kNames[] = {"type",
                                       "enum",
                                       "const",
                                       "anyOf",
                                       "oneOf",
                                       "allOf",
                                       "$ref",
                                       "properties",
                                       "required",
                                       "additionalProperties",
                                       "items",
                                       "prefixItems",
                                       "minItems",
                                       "maxItems",
                                       "minLength",
                                       "maxLength",
                                       "pattern",
                                       "format",
                                       "nullable",
                                       "multipleOf",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum"};
static_assert(std::size(kNames) == kKeywords);
// They say nothing about a value, or hold what $ref points to; beside them all that begin with x-.
constexpr std::string_view kIgnored[] = {"title",
                                         "description",
                                         "default",
                                         "examples",
                                         "example",
                                         "$schema",
                                         "$id",
                                         "$comment",
                                         "deprecated",
                                         "readOnly",
                                         "writeOnly",
                                         "$defs",
                                         "definitions",
                                         "discriminator",
                                         "contentEncoding",
                                         "contentMediaType",
                                         "contentSchema",
                                         "externalDocs",
                                         "xml",
                                         "minContains",
                                         "maxContains"};
constexpr std::string_view kExtension = "x-";

// Keywords with a value that restricts nothing.
enum class Idle { kFalse, kZero, kEmpty, kAnything, kAnyName };
struct IdleRow {
  std::string_view name;
  Idle value;
};
constexpr IdleRow kIdle[] = {{"nullable", Idle::kFalse},
                             {"uniqueItems", Idle::kFalse},
                             {"exclusiveMinimum", Idle::kFalse},
                             {"exclusiveMaximum", Idle::kFalse},
                             {"not", Idle::kFalse},
                             {"minProperties", Idle::kZero},
                             {"patternProperties", Idle::kEmpty},
                             {"dependentRequired", Idle::kEmpty},
                             {"dependentSchemas", Idle::kEmpty},
                             {"dependencies", Idle::kEmpty},
                             {"unevaluatedProperties", Idle::kAnything},
                             {"unevaluatedItems", Idle::kAnything},
                             {"additionalItems", Idle::kAnything},
                             {"propertyNames", Idle::kAnyName}};

constexpr std::string_view kId = "$id";

struct TypeName {
  std::string_view name;
  uint32_t kind;
};
constexpr std::string_view kInteger = "integer";
constexpr TypeName kTypes[] = {{"null", kNull},     {"boolean", kBoolean}, {"number", kNumber},
                               {kInteger, kNumber}, {"string", kString},   {"array", kArray},
                               {"object", kObject}};

constexpr uint32_t kMostReferences = 4096;  // looked up
constexpr uint32_t kMostUnnamed = 256;      // of required that properties does not have
constexpr uint32_t kMostPatterns = 256;
constexpr uint64_t kMostCount = 0x7fffffff;

template <typename T>
bool place(Arena* arena, uint64_t n, T** table, uint64_t* n_bytes) {
  *n_bytes += aligned(n * sizeof(T));
  if (arena == nullptr) return true;
  *table = reinterpret_cast<T*>(arena->take(n * sizeof(T)));
  return *table != nullptr;
}

class Compiler {
 public:
  Compiler(SchemaTables* tables, Strictness strictness, Refusal* refusal)
      : tables_(tables),
        schema_(&tables->schema),
        text_(tables->text),
        is_lenient_(strictness == Strictness::kLenient),
        refusal_(refusal) {}

  Status compile(uint32_t value, uint32_t* node);

 private:
  // A schema's keywords, each with its value or kNone.
  struct Found {
    uint32_t value[kKeywords];
    [[nodiscard]] bool has(Keyword k) const { return value[k] != kNone; }
  };

  Status refuse(uint32_t value, std::string_view keyword, const char* reason,
                Status status = Status::kUnsupported) {
    *refusal_ = {text_.offset(value), reason, keyword};
    return status;
  }
  [[nodiscard]] bool is_ignored(std::string_view name) const;
  [[nodiscard]] bool is_idle(std::string_view name, uint32_t value) const;
  Status read_keywords(uint32_t value, Found* found);
  Status node_of(uint32_t value, uint32_t* node);
  Status look_up(uint32_t reference, uint32_t* target);
  Status alone(const Found& found, Keyword keyword, Keyword also);
  Status count(const Found& found, Keyword keyword, uint32_t* number);
  Status read_types(const Found& found, uint32_t* kinds, bool* integers);
  Status read_literals(const Found& found, Node* node);
  Status read_literal(const Found& found, uint32_t kinds, bool integers, uint32_t value,
                      Node* node);
  Status read_schemas(uint32_t value, Keyword keyword, uint32_t* first, uint32_t* n);
  Status read_options(const Found& found, Keyword keyword, Node* node);
  Status read_range(const Found& found, bool integers, Node* node);
  Status read_pattern_of(std::string_view raw, uint32_t value, Keyword keyword, Node* node);
  [[nodiscard]] const NumberFormat* number_format(const Found& found) const;
  Status read_format(const Found& found, Node* node);
  Status count_characters(const Found& found, Node* node);
  Status read_string(const Found& found, Node* node);
  Status read_array(const Found& found, Node* node);
  Status read_object(const Found& found, Node* node);
  Status add_property(uint32_t name, uint32_t value_node, Node* node);
  void sort_names(const Node& node);
  [[nodiscard]] Property* find_property(const Node& node, uint32_t n_sorted, std::string_view name);
  Status mark_required(const Found& found, uint32_t additional, Node* node);
  Status read_node(uint32_t id);
  void loosen(uint32_t id);

  SchemaTables* tables_;
  Schema* schema_;
  SchemaText text_;
  bool is_lenient_;
  Refusal* refusal_;
  uint32_t n_references_ = 0;
  uint32_t n_items_ = 0;  // that they went past
};

bool Compiler::is_ignored(std::string_view name) const {
  return name.starts_with(kExtension) ||
         std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored);
}

bool Compiler::is_idle(std::string_view name, uint32_t value) const {
  const auto* const row = std::find_if(std::begin(kIdle), std::end(kIdle),
                                       [&](const IdleRow& r) { return r.name == name; });
  if (row == std::end(kIdle)) return false;
  const char kind = text_.kind(value);
  const bool is_empty = kind == '{' && text_.next(value) == value + 1;
  switch (row->value) {
    case Idle::kFalse:
      return kind == 'f';
    case Idle::kZero:
      return kind == '0' && text_.raw(value) == "0";
    case Idle::kEmpty:
      return is_empty;
    case Idle::kAnything:
      return is_empty || kind == 't';
    case Idle::kAnyName:
      break;
  }
  if (kind != '{') return kind == 't';
  // A name is a string.
  for (uint32_t i = value + 1; i < text_.next(value); i = text_.next(i + 1)) {
    const bool is_string =
        text_.raw(i) == kNames[kType] && text_.kind(i + 1) == '"' && text_.raw(i + 1) == "string";
    if (!is_string && !is_ignored(text_.raw(i))) return false;
  }
  return true;
}

Status Compiler::read_keywords(uint32_t value, Found* found) {
  std::fill(std::begin(found->value), std::end(found->value), kNone);
  for (uint32_t name = value + 1; name < text_.next(value); name = text_.next(name + 1)) {
    const std::string_view raw = text_.raw(name);
    if (is_idle(raw, name + 1)) continue;
    const auto* const known = std::find(std::begin(kNames), std::end(kNames), raw);
    if (known != std::end(kNames)) {
      uint32_t& at = found->value[known - std::begin(kNames)];
      if (at != kNone) return refuse(name, raw, "appears twice");
      at = name + 1;
    } else if (!is_ignored(raw)) {
      if (!is_lenient_) return refuse(name, raw, "is not supported");
    } else if (raw == kId && value != tables_->root) {
      return refuse(name, raw, "is supported only at the top of the schema");
    }
  }
  return Status::kOk;
}

Status Compiler::look_up(uint32_t reference, uint32_t* target) {
  if (++n_references_ > kMostReferences) {
    return refuse(reference, kNames[kRef], "appears too often", Status::kTextTooLong);
  }
  const char* const problem = follow_reference(*tables_, text_.raw(reference), &n_items_, target);
  return problem == nullptr ? Status::kOk : refuse(reference, kNames[kRef], problem);
}

// The node of the schema that is this value, now or when it is read.
Status Compiler::node_of(uint32_t value, uint32_t* node) {
  constexpr uint32_t kMostHops = 64;
  uint32_t references[kMostHops];  // each is read once, however many lead to it
  for (uint32_t hops = 0; hops < kMostHops; ++hops) {
    const auto found_node = [&](uint32_t id) {
      for (uint32_t i = 0; i < hops; ++i) tables_->node_of[references[i]] = id;
      *node = id;
      return Status::kOk;
    };
    const char kind = text_.kind(value);
    if (kind == 't' || kind == 'f') return found_node(kind == 't' ? kAnyNode : kNeverNode);
    if (kind != '{') return refuse(value, {}, "is not a schema: an object, true or false");
    if (tables_->node_of[value] != kNone) return found_node(tables_->node_of[value]);
    uint32_t reference = kNone;
    for (uint32_t name = value + 1; name < text_.next(value); name = text_.next(name + 1)) {
      if (text_.raw(name) == kNames[kRef]) reference = name + 1;
    }
    if (reference == kNone) {
      const uint32_t id = schema_->n_nodes++;
      tables_->node_of[value] = id;
      schema_->nodes[id] = {};
      schema_->nodes[id].source = value;
      return found_node(id);
    }
    references[hops] = value;
    Found found;
    CRIA_TRY(read_keywords(value, &found));
    CRIA_TRY(alone(found, kRef, kRef));
    if (text_.kind(reference) != '"') return refuse(reference, kNames[kRef], "is not a string");
    CRIA_TRY(look_up(reference, &value));
  }
  return refuse(value, kNames[kRef], "points to references for ever, or to more than 64");
}

// A keyword that only annotations, and one other, may stand beside.
Status Compiler::alone(const Found& found, Keyword keyword, Keyword also) {
  for (uint32_t k = 0; k < kKeywords; ++k) {
    if (found.value[k] == kNone || k == keyword || k == also) continue;
    if (k == kNullable && also == kType && found.has(kType)) continue;
    return refuse(found.value[k], kNames[k],
                  keyword == kRef ? "is not supported beside $ref"
                  : keyword == kEnum || keyword == kConst
                      ? "is not supported beside enum or const"
                      : "is not supported beside anyOf, oneOf or allOf");
  }
  return Status::kOk;
}

Status Compiler::count(const Found& found, Keyword keyword, uint32_t* number) {
  const uint32_t value = found.value[keyword];
  if (value == kNone) return Status::kOk;
  if (!text_.is_number(value)) return refuse(value, kNames[keyword], "is not a number");
  Decimal d = {};
  bool negative = false;
  const DecimalResult result = read_decimal(text_.raw(value), &d, &negative);
  if (negative || d.part != 0 || result != DecimalResult::kExact) {
    return refuse(value, kNames[keyword], "is not a whole number from zero on");
  }
  if (d.whole > kMostCount) {
    return refuse(value, kNames[keyword], "is larger than 2147483647", Status::kTextTooLong);
  }
  *number = static_cast<uint32_t>(d.whole);
  return Status::kOk;
}

Status Compiler::read_types(const Found& found, uint32_t* kinds, bool* integers) {
  const uint32_t value = found.value[kType];
  *kinds = kAllKinds;
  *integers = false;
  if (value == kNone) return Status::kOk;
  const bool is_list = text_.kind(value) == '[';
  bool numbers = false;
  *kinds = 0;
  for (uint32_t i = is_list ? value + 1 : value; i < text_.next(value); i = text_.next(i)) {
    const auto* const known = std::find_if(
        std::begin(kTypes), std::end(kTypes),
        [&](const TypeName& t) { return text_.kind(i) == '"' && t.name == text_.raw(i); });
    if (known == std::end(kTypes))
      return refuse(i, kNames[kType], "has a value that is not a type");
    *kinds |= known->kind;
    if (known->kind == kNumber) (known->name == kInteger ? *integers : numbers) = true;
  }
  if (numbers) *integers = false;
  // OpenAPI's: another type beside those that are said.
  if (found.has(kNullable) && text_.kind(found.value[kNullable]) != 't') {
    return refuse(found.value[kNullable], kNames[kNullable], "is neither true nor false");
  }
  if (found.has(kNullable) && *kinds != 0) *kinds |= kNull;
  if (*kinds == 0) return refuse(value, kNames[kType], "is an empty list");
  return Status::kOk;
}

Status Compiler::read_literal(const Found& found, uint32_t kinds, bool integers, uint32_t value,
                              Node* node) {
  uint32_t kind = kNumber;
  switch (text_.kind(value)) {
    case 'n':
      kind = kNull;
      break;
    case 't':
    case 'f':
      kind = kBoolean;
      break;
    case '"':
      kind = kString;
      break;
    case '[':
      kind = kArray;
      break;
    case '{':
      kind = kObject;
      break;
    default:
      if (integers && (kinds & kNumber) != 0) {
        Decimal d = {};
        bool negative = false;
        const DecimalResult result = read_decimal(text_.raw(value), &d, &negative);
        if (d.whole == kDigitsLimit) {
          return refuse(value, kNames[found.has(kEnum) ? kEnum : kConst],
                        "has an integer of more than 18 digits");
        }
        if (d.part != 0 || result != DecimalResult::kExact) kind = 0;
      }
      break;
  }
  if ((kind & kinds) == 0) return Status::kOk;
  CRIA_TRY(put_literal(tables_, value, &schema_->literals[schema_->n_literals], refusal_));
  ++schema_->n_literals;
  ++node->n_literals;
  return Status::kOk;
}

Status Compiler::read_literals(const Found& found, Node* node) {
  const bool is_enum = found.has(kEnum);
  const Keyword keyword = is_enum ? kEnum : kConst;
  const uint32_t value = found.value[keyword];
  CRIA_TRY(alone(found, keyword, kType));
  uint32_t kinds = 0;
  bool integers = false;
  CRIA_TRY(read_types(found, &kinds, &integers));
  node->first_literal = schema_->n_literals;
  if (is_enum) {
    if (text_.kind(value) != '[') return refuse(value, kNames[kEnum], "is not a list");
    for (uint32_t i = value + 1; i < text_.next(value); i = text_.next(i)) {
      CRIA_TRY(read_literal(found, kinds, integers, i, node));
    }
  } else {
    CRIA_TRY(read_literal(found, kinds, integers, value, node));
  }
  TextPart* const first = schema_->literals + node->first_literal;
  std::sort(first, first + node->n_literals, [this](const TextPart& a, const TextPart& b) {
    return schema_->part(a) < schema_->part(b);
  });
  if (node->n_literals > 0) node->kinds = kLiterals;
  return Status::kOk;
}

// The links to the schemas of a list.
Status Compiler::read_schemas(uint32_t value, Keyword keyword, uint32_t* first, uint32_t* n) {
  if (text_.kind(value) != '[') return refuse(value, kNames[keyword], "is not a list of schemas");
  *first = schema_->n_links;
  for (uint32_t i = value + 1; i < text_.next(value); i = text_.next(i)) {
    uint32_t node = 0;
    CRIA_TRY(node_of(i, &node));
    schema_->links[schema_->n_links++] = node;
  }
  *n = schema_->n_links - *first;
  return Status::kOk;
}

Status Compiler::read_options(const Found& found, Keyword keyword, Node* node) {
  const uint32_t value = found.value[keyword];
  CRIA_TRY(alone(found, keyword, keyword));
  CRIA_TRY(read_schemas(value, keyword, &node->first_option, &node->n_options));
  if (node->n_options == 0) return refuse(value, kNames[keyword], "is not a list of schemas");
  if (keyword == kAllOf && node->n_options > 1) {
    return refuse(value, kNames[keyword], "of more than one schema is not supported");
  }
  if (keyword == kOneOf) {
    node->first_prefix = node->first_option;
    node->n_prefix = node->n_options;
    node->one_of = 1;
  }
  return Status::kOk;
}

Status Compiler::read_range(const Found& found, bool integers, Node* node) {
  constexpr Keyword kBounds[] = {kMinimum, kExclusiveMinimum, kMaximum, kExclusiveMaximum};
  if (found.has(kMultipleOf)) {
    const uint32_t value = found.value[kMultipleOf];
    Decimal d = {};
    bool negative = false;
    const bool is_one = text_.is_number(value) &&
                        read_decimal(text_.raw(value), &d, &negative) == DecimalResult::kExact &&
                        d.whole == 1 && d.part == 0 && !negative;
    if (!is_one) {
      return refuse(value - 1, kNames[kMultipleOf], "of anything but 1 is not supported");
    }
    integers = true;
  }
  const NumberFormat* const format = number_format(found);
  integers = integers || (format != nullptr && format->is_integer);
  node->range = integers ? 1 : 0;
  const auto is_there = [&](Keyword k) { return found.has(k); };
  if (format == nullptr && std::none_of(std::begin(kBounds), std::end(kBounds), is_there)) {
    return Status::kOk;
  }
  NumberRange range = any_number(integers);
  if (format != nullptr) {
    if (format->is_single) range.exponents = false;
    if (format->most_below_zero < kDigitsLimit) {
      apply_minimum({format->most_below_zero, 0}, format->most_below_zero > 0, false, &range);
    }
    if (format->most < kDigitsLimit) apply_maximum({format->most, 0}, false, false, &range);
  }
  for (const Keyword keyword : kBounds) {
    const uint32_t value = found.value[keyword];
    if (value == kNone) continue;
    if (!text_.is_number(value)) return refuse(value, kNames[keyword], "is not a number");
    Decimal d = {};
    bool negative = false;
    if (read_decimal(text_.raw(value), &d, &negative) != DecimalResult::kExact) {
      return refuse(value, kNames[keyword], "has more than 18 digits after the point");
    }
    const bool exclusive = keyword == kExclusiveMinimum || keyword == kExclusiveMaximum;
    const bool is_minimum = keyword == kMinimum || keyword == kExclusiveMinimum;
    (is_minimum ? apply_minimum : apply_maximum)(d, negative, exclusive, &range);
    if (is_beyond_digits(range)) {
      return refuse(
          value, kNames[keyword],
          "leaves numbers of more than 18 digits before the point, which are not written");
    }
  }
  if (!finish_range(integers, &range)) node->kinds &= ~kNumber;
  node->range = schema_->n_ranges;
  schema_->ranges[schema_->n_ranges++] = range;
  return Status::kOk;
}

Status Compiler::read_pattern_of(std::string_view raw, uint32_t value, Keyword keyword,
                                 Node* node) {
  bool matches = false;
  PatternProblem problem = {};
  node->pattern = schema_->n_patterns;
  const PatternPools before = schema_->pools;
  const Status status = read_pattern(raw, tables_->excluded, &schema_->pools,
                                     &schema_->patterns[schema_->n_patterns], &matches, &problem);
  if (status != Status::kOk && is_lenient_) {
    schema_->pools = before;
    node->pattern = kNone;
    return Status::kOk;
  }
  if (status != Status::kOk) {
    *refusal_ = {text_.offset(value) + 1 + problem.at, problem.reason, kNames[keyword]};
    return status;
  }
  ++schema_->n_patterns;
  if (!matches) node->kinds &= ~kString;
  return Status::kOk;
}

// Null: there is none, or one of strings.
const NumberFormat* Compiler::number_format(const Found& found) const {
  const bool is_name = found.has(kFormat) && text_.kind(found.value[kFormat]) == '"';
  return is_name ? find_number_format(text_.raw(found.value[kFormat])) : nullptr;
}

// A format's pattern is made once, for all that have it.
Status Compiler::read_format(const Found& found, Node* node) {
  const uint32_t value = found.value[kFormat];  // after its name
  if (text_.kind(value) != '"') return refuse(value - 1, kNames[kFormat], "is not a string");
  if (number_format(found) != nullptr && (node->kinds & kString) == 0) return Status::kOk;
  const uint32_t format = find_format(text_.raw(value));
  if (format == kFormats) {
    if (is_lenient_) return Status::kOk;
    return refuse(value - 1, kNames[kFormat], "has a value that is not supported");
  }
  if (found.has(kPattern)) {
    return refuse(value - 1, kNames[kFormat], "is not supported beside pattern");
  }
  if (tables_->formats[format] == kNone) {
    CRIA_TRY(read_pattern_of(format_at(format).pattern, value, kFormat, node));
    tables_->formats[format] = node->pattern;
  }
  node->pattern = tables_->formats[format];
  const uint32_t most = format_at(format).most_characters;
  if (most > 0) node->most_characters = std::min(node->most_characters, most);
  return Status::kOk;
}

// Where a text of the pattern must have other lengths than it says.
Status Compiler::count_characters(const Found& found, Node* node) {
  const bool is_bounded = node->most_characters != kEndless;
  if (node->least_characters == 0 && !is_bounded) return Status::kOk;
  const uint32_t n = is_bounded ? node->most_characters : node->least_characters;
  if (n > kMostCountedLength) {
    const Keyword keyword = is_bounded ? kMaxLength : kMinLength;
    return refuse(found.value[keyword], kNames[keyword],
                  "is more than 1024, which is not supported beside pattern", Status::kTextTooLong);
  }
  const Pattern& pattern = schema_->patterns[node->pattern];
  node->first_alive = schema_->n_alive;
  PositionSet* const alive = schema_->alive + schema_->n_alive;
  schema_->n_alive += n + 1;
  alive[n] = is_bounded ? pattern.ends : pattern_alive(schema_->pools, pattern);
  for (uint32_t i = n; i-- > 0;) {
    alive[i] = pattern_before(schema_->pools, pattern, alive[i + 1]);
    if (i >= node->least_characters) alive[i] |= pattern.ends;
  }
  if (!alive[0].meets(pattern_start())) node->kinds &= ~kString;
  return Status::kOk;
}

Status Compiler::read_string(const Found& found, Node* node) {
  CRIA_TRY(count(found, kMinLength, &node->least_characters));
  CRIA_TRY(count(found, kMaxLength, &node->most_characters));
  if (found.has(kFormat)) {
    CRIA_TRY(read_format(found, node));
  } else if (found.has(kPattern)) {
    const uint32_t value = found.value[kPattern];
    if (text_.kind(value) != '"') return refuse(value, kNames[kPattern], "is not a string");
    CRIA_TRY(read_pattern_of(text_.raw(value), value, kPattern, node));
  }
  if (node->least_characters > node->most_characters) {
    node->kinds &= ~kString;
    return Status::kOk;
  }
  return node->pattern == kNone ? Status::kOk : count_characters(found, node);
}

Status Compiler::read_array(const Found& found, Node* node) {
  CRIA_TRY(count(found, kMinItems, &node->least_items));
  CRIA_TRY(count(found, kMaxItems, &node->most_items));
  const uint32_t prefix = found.value[kPrefixItems];
  if (prefix != kNone) {
    CRIA_TRY(read_schemas(prefix, kPrefixItems, &node->first_prefix, &node->n_prefix));
  }
  const uint32_t items = found.value[kItems];
  node->items = kAnyNode;
  if (items == kNone) return Status::kOk;
  if (text_.kind(items) == '[') {
    return refuse(items, kNames[kItems], "as a list is not supported; use prefixItems");
  }
  return node_of(items, &node->items);
}

Status Compiler::add_property(uint32_t name, uint32_t value_node, Node* node) {
  Property* const p = &schema_->properties[schema_->n_properties++];
  *p = {};
  p->name = put_name(tables_, name, &p->hash);
  p->node = value_node;
  ++node->n_properties;
  return Status::kOk;
}

void Compiler::sort_names(const Node& node) {
  uint32_t* const first = schema_->by_name + node.first_property;
  const Property* const properties = schema_->properties + node.first_property;
  for (uint32_t i = 0; i < node.n_properties; ++i) first[i] = i;
  std::sort(first, first + node.n_properties, [&](uint32_t a, uint32_t b) {
    const int order = schema_->part(properties[a].name).compare(schema_->part(properties[b].name));
    return order < 0 || (order == 0 && a < b);
  });
}

// Among the first n_sorted names, which are sorted, and those added after them.
Property* Compiler::find_property(const Node& node, uint32_t n_sorted, std::string_view name) {
  Property* const properties = schema_->properties + node.first_property;
  const uint32_t* const first = schema_->by_name + node.first_property;
  const uint32_t* const found =
      std::lower_bound(first, first + n_sorted, name, [&](uint32_t i, std::string_view wanted) {
        return schema_->part(properties[i].name) < wanted;
      });
  if (found != first + n_sorted && schema_->part(properties[*found].name) == name) {
    return properties + *found;
  }
  for (uint32_t i = n_sorted; i < node.n_properties; ++i) {
    if (schema_->part(properties[i].name) == name) return properties + i;
  }
  return nullptr;
}

Status Compiler::mark_required(const Found& found, uint32_t additional, Node* node) {
  const uint32_t value = found.value[kRequired];
  if (value == kNone) return Status::kOk;
  if (text_.kind(value) != '[') return refuse(value, kNames[kRequired], "is not a list");
  const uint32_t n_sorted = node->n_properties;
  for (uint32_t i = value + 1; i < text_.next(value); i = text_.next(i)) {
    if (text_.kind(i) != '"')
      return refuse(i, kNames[kRequired], "has a name that is not a string");
    uint32_t hash = 0;
    const uint32_t n_text = schema_->n_text;
    const TextPart name = put_name(tables_, i, &hash);
    Property* p = find_property(*node, n_sorted, schema_->part(name));
    schema_->n_text = n_text;
    if (p == nullptr) {
      if (node->n_properties - n_sorted == kMostUnnamed) {
        return refuse(i, kNames[kRequired], "has more than 256 names without a property",
                      Status::kTextTooLong);
      }
      CRIA_TRY(add_property(i, additional, node));
      p = &schema_->properties[schema_->n_properties - 1];
    }
    p->reach = 1;
  }
  return Status::kOk;
}

Status Compiler::read_object(const Found& found, Node* node) {
  const uint32_t properties = found.value[kProperties];
  node->first_property = schema_->n_properties;
  if (properties != kNone) {
    if (text_.kind(properties) != '{') {
      return refuse(properties, kNames[kProperties], "is not an object of schemas");
    }
    uint32_t name = properties + 1;
    for (; name < text_.next(properties); name = text_.next(name + 1)) {
      uint32_t value_node = 0;
      CRIA_TRY(node_of(name + 1, &value_node));
      CRIA_TRY(add_property(name, value_node, node));
    }
    sort_names(*node);
    const uint32_t* const by_name = schema_->by_name + node->first_property;
    for (uint32_t i = 1; i < node->n_properties; ++i) {
      const Property* const p = schema_->properties + node->first_property;
      if (schema_->part(p[by_name[i]].name) == schema_->part(p[by_name[i - 1]].name)) {
        return refuse(properties, kNames[kProperties], "has a name twice");
      }
    }
  }
  // Where nothing is said JSON schemas allow any other property. Of an object whose properties are
  // named nobody wants one that a model made up.
  uint32_t allowed = kAnyNode;
  if (found.has(kAdditional)) CRIA_TRY(node_of(found.value[kAdditional], &allowed));
  node->additional = found.has(kAdditional) || properties == kNone ? allowed : uint32_t{kNeverNode};
  CRIA_TRY(mark_required(found, allowed, node));
  sort_names(*node);
  uint32_t reach = node->n_properties;
  for (uint32_t i = node->n_properties; i-- > 0;) {
    Property& p = schema_->properties[node->first_property + i];
    if (p.reach == 1) reach = i;
    p.reach = reach;
  }
  return Status::kOk;
}

Status Compiler::read_node(uint32_t id) {
  Node node = schema_->nodes[id];
  node.most_characters = kEndless;
  node.most_items = kEndless;
  node.pattern = kNone;
  node.first_alive = kNone;
  Found found;
  CRIA_TRY(read_keywords(node.source, &found));
  if (found.has(kEnum) || found.has(kConst)) {
    CRIA_TRY(read_literals(found, &node));
  } else if (found.has(kAnyOf) || found.has(kOneOf) || found.has(kAllOf)) {
    const Keyword keyword = found.has(kAnyOf) ? kAnyOf : found.has(kOneOf) ? kOneOf : kAllOf;
    CRIA_TRY(read_options(found, keyword, &node));
  } else {
    bool integers = false;
    CRIA_TRY(read_types(found, &node.kinds, &integers));
    CRIA_TRY(read_range(found, integers, &node));
    CRIA_TRY(read_string(found, &node));
    CRIA_TRY(read_array(found, &node));
    CRIA_TRY(read_object(found, &node));
  }
  schema_->nodes[id] = node;
  return Status::kOk;
}

// Of a node that is not understood what its type says, or nothing.
void Compiler::loosen(uint32_t id) {
  Node node = {};
  node.source = schema_->nodes[id].source;
  node.most_characters = kEndless;
  node.most_items = kEndless;
  node.pattern = kNone;
  node.first_alive = kNone;
  node.items = kAnyNode;
  node.additional = kAnyNode;
  Found found;
  bool integers = false;
  if (read_keywords(node.source, &found) != Status::kOk ||
      read_types(found, &node.kinds, &integers) != Status::kOk) {
    node.kinds = kAllKinds;
    integers = false;
  }
  node.range = integers ? 1 : 0;
  schema_->nodes[id] = node;
}

Status Compiler::compile(uint32_t value, uint32_t* node) {
  const uint32_t first = schema_->n_nodes;
  tables_->root = value;
  CRIA_TRY(node_of(value, node));
  for (uint32_t id = first; id < schema_->n_nodes; ++id) {
    const Status status = read_node(id);
    if (status == Status::kOk) continue;
    if (!is_lenient_) return status;
    loosen(id);
  }
  return settle_nodes(tables_, first, is_lenient_ ? Strictness::kLenient : Strictness::kExact,
                      refusal_);
}

void add_built_nodes(SchemaTables* tables) {
  Schema* const schema = &tables->schema;
  schema->n_nodes = kBuiltNodes;
  Node& any = schema->nodes[kAnyNode];
  any = {};
  any.kinds = kAllKinds;
  any.pattern = kNone;
  any.first_alive = kNone;
  any.most_characters = kEndless;
  any.most_items = kEndless;
  any.array_depth = any.object_depth = 1;
  Node& never = schema->nodes[kNeverNode];
  never = {};
  never.depth = never.array_depth = never.object_depth = kImpossible;
  schema->ranges[0] = any_number(false);
  schema->ranges[1] = any_number(true);
  static_cast<void>(finish_range(false, &schema->ranges[0]));
  static_cast<void>(finish_range(true, &schema->ranges[1]));
  schema->n_ranges = 2;
  schema->root = kAnyNode;
}

Status count_values(std::string_view text, SchemaCounts* counts, Refusal* refusal) {
  *counts = {};
  if (text.data() == nullptr) return Status::kOk;
  CRIA_TRY(read_schema_text(text, nullptr, counts, refusal));
  if (counts->n_patterns <= kMostPatterns) return Status::kOk;
  *refusal = {0, "appears more than 256 times", kNames[kPattern]};
  return Status::kTextTooLong;
}

}  // namespace

PositionSet Schema::leads_on(const Node& node, PositionSet next, uint32_t n_characters) const {
  if (node.first_alive == kNone) return next;
  if (node.most_characters == kEndless) {
    n_characters = std::min(n_characters, node.least_characters);
  } else if (n_characters > node.most_characters) {
    return {};
  }
  return next & alive[node.first_alive + n_characters];
}

Status lay_out_tables(const SchemaCounts& counts, size_t text_bytes, Arena* arena,
                      SchemaTables* tables, uint64_t* n_bytes) {
  constexpr uint32_t kSpareLinks = 64;
  constexpr size_t kSpareText = 64;
  Schema* const s = &tables->schema;
  *n_bytes = 0;
  const uint64_t n_nodes = uint64_t{counts.n_schemas} + kBuiltNodes;
  const uint64_t n_patterns = uint64_t{counts.n_patterns} + counts.n_formats;
  const uint64_t n_links = 3 * uint64_t{counts.n_values} + kSpareLinks;
  tables->n_values = counts.n_values;
  tables->most_links = static_cast<uint32_t>(n_links);
  const bool fits = place(arena, n_nodes, &s->nodes, n_bytes) &&
                    place(arena, counts.n_strings, &s->properties, n_bytes) &&
                    place(arena, counts.n_strings, &s->by_name, n_bytes) &&
                    place(arena, counts.n_values, &s->literals, n_bytes) &&
                    place(arena, uint64_t{counts.n_bounds} + 2, &s->ranges, n_bytes) &&
                    place(arena, n_patterns, &s->patterns, n_bytes) &&
                    place(arena, counts.n_alive, &s->alive, n_bytes) &&
                    place(arena, n_links, &s->links, n_bytes) &&
                    place(arena, text_bytes + kSpareText, &s->text, n_bytes) &&
                    place(arena, counts.pattern_positions, &s->pools.positions, n_bytes) &&
                    place(arena, counts.pattern_ranges, &s->pools.ranges, n_bytes) &&
                    place(arena, n_patterns * kAsciiCharacters, &s->pools.ascii, n_bytes) &&
                    place(arena, counts.n_values, &tables->values, n_bytes) &&
                    place(arena, counts.n_values, &tables->node_of, n_bytes) &&
                    place(arena, counts.n_members, &tables->members, n_bytes) &&
                    place(arena, n_nodes, &tables->stack, n_bytes) &&
                    place(arena, n_nodes, &tables->stamps, n_bytes);
  return fits ? Status::kOk : Status::kMemoryTooSmall;
}

Status schema_bytes(std::string_view text, uint64_t* n_bytes, Refusal* refusal) {
  SchemaCounts counts = {};
  SchemaTables tables = {};
  CRIA_TRY(count_values(text, &counts, refusal));
  return lay_out_tables(counts, text.size(), nullptr, &tables, n_bytes);
}

Status open_tables(std::string_view text, std::span<uint8_t> memory, SchemaTables* tables,
                   Refusal* refusal) {
  SchemaCounts counts = {};
  uint64_t n_bytes = 0;
  *refusal = {};
  *tables = {};
  CRIA_TRY(count_values(text, &counts, refusal));
  Arena arena(memory.data(), memory.size());
  CRIA_TRY(lay_out_tables(counts, text.size(), &arena, tables, &n_bytes));
  if (text.data() != nullptr) {
    CRIA_TRY(read_schema_text(text, tables->values, &counts, refusal));
    tables->text = SchemaText(text, tables->values);
  }
  std::fill(std::begin(tables->formats), std::end(tables->formats), kNone);
  std::fill(tables->node_of, tables->node_of + tables->n_values, kNone);
  add_built_nodes(tables);
  sort_members(tables);
  return Status::kOk;
}

Status add_schema(SchemaTables* tables, uint32_t value, Strictness strictness, uint32_t* node,
                  Refusal* refusal) {
  return Compiler(tables, strictness, refusal).compile(value, node);
}

Status compile_schema(std::string_view text, std::span<uint8_t> memory, Schema* schema,
                      Refusal* refusal) {
  SchemaTables tables = {};
  CRIA_TRY(open_tables(text, memory, &tables, refusal));
  Schema& s = tables.schema;
  if (tables.n_values > 0) {
    CRIA_TRY(add_schema(&tables, 0, Strictness::kExact, &s.root, refusal));
  }
  if (s.nodes[s.root].depth == kImpossible) {
    *refusal = {tables.n_values > 0 ? tables.text.offset(0) : 0,
                "allows no document, or only documents nested more than 32 deep",
                {}};
    return Status::kUnsupported;
  }
  *schema = s;
  return Status::kOk;
}

}  // namespace cria::json
