// Nodes once they are all there: their options, and how deep they must nest.
#include <algorithm>

#include "runtime/json/schema_tables.h"

namespace cria::json {
namespace {

// What is counted of all oneOf together: as long as a schema of the largest size is read.
constexpr uint32_t kMostCompared = 1u << 22;

class Settler {
 public:
  Settler(SchemaTables* tables, uint32_t first, Refusal* refusal)
      : tables_(tables), schema_(&tables->schema), first_(first), refusal_(refusal) {}

  Status settle(Strictness strictness) {
    std::fill(tables_->stamps, tables_->stamps + kBuiltNodes, kNone);
    std::fill(tables_->stamps + first_, tables_->stamps + schema_->n_nodes, kNone);
    for (uint32_t i = first_; i < schema_->n_nodes; ++i) {
      if (schema_->nodes[i].n_options > 0) CRIA_TRY(flatten(i));
    }
    for (uint32_t i = first_; i < schema_->n_nodes; ++i) {
      const bool is_checked = schema_->nodes[i].one_of != 0 && strictness == Strictness::kExact;
      if (is_checked) CRIA_TRY(check_one_of(schema_->nodes[i]));
    }
    measure();
    return Status::kOk;
  }

 private:
  Status refuse(const Node& node, std::string_view keyword, const char* reason, Status status) {
    *refusal_ = {tables_->text.offset(node.source), reason, keyword};
    return status;
  }
  Status too_long(const Node& node) {
    return refuse(node, "oneOf", "has alternatives that take too long to compare",
                  Status::kTextTooLong);
  }
  Status flatten(uint32_t root);
  Status check_one_of(const Node& node);
  [[nodiscard]] std::span<const uint32_t> leaves(const uint32_t* node) const;
  [[nodiscard]] uint32_t value_kinds(const Node& node) const;
  [[nodiscard]] bool have_common_literal(const Node& a, const Node& b);
  [[nodiscard]] bool are_tagged(const Node& a, const Node& b);
  [[nodiscard]] bool are_apart(const Node& a, const Node& b);
  [[nodiscard]] uint8_t depth_of_array(const Node& node) const;
  [[nodiscard]] uint8_t depth_of_object(const Node& node) const;
  bool measure_node(Node* node);
  void measure();

  SchemaTables* tables_;
  Schema* schema_;
  uint32_t first_;
  Refusal* refusal_;
};

// Every alternative in the schema's order, each once, none of them with options of its own.
Status Settler::flatten(uint32_t root) {
  Node* const node = &schema_->nodes[root];
  uint32_t* const stack = tables_->stack;
  uint32_t n_stack = 0;
  const auto push = [&](const Node& from) {
    for (uint32_t i = from.n_options; i-- > 0;) {
      const uint32_t option = schema_->links[from.first_option + i];
      if (tables_->stamps[option] == root) continue;
      tables_->stamps[option] = root;
      stack[n_stack++] = option;
    }
  };
  const uint32_t first = schema_->n_links;
  tables_->stamps[root] = root;
  push(*node);
  while (n_stack > 0) {
    const uint32_t option = stack[--n_stack];
    const Node& from = schema_->nodes[option];
    if (from.n_options > 0) {
      push(from);
      continue;
    }
    if (from.kinds == 0) continue;
    if (schema_->n_links - first == kMostOptions || schema_->n_links == tables_->most_links) {
      return refuse(*node, "anyOf", "has more than 64 alternatives", Status::kTextTooLong);
    }
    schema_->links[schema_->n_links++] = option;
  }
  node->first_option = first;
  node->n_options = schema_->n_links - first;
  uint32_t n_positions = 0;  // that strings of all alternatives are held against at once
  for (uint32_t i = first; i < schema_->n_links; ++i) {
    const Node& option = schema_->nodes[schema_->links[i]];
    const bool has_pattern = (option.kinds & kString) != 0 && option.pattern != kNone;
    if (has_pattern) n_positions += schema_->patterns[option.pattern].n_positions;
  }
  if (n_positions <= kMostPositionsAtOnce) return Status::kOk;
  return refuse(
      *node, "anyOf",
      "has patterns of more than 512 characters to match together, repetitions written out",
      Status::kTextTooLong);
}

std::span<const uint32_t> Settler::leaves(const uint32_t* node) const {
  const Node& n = schema_->nodes[*node];
  if (n.kinds != 0) return {node, 1};
  return {schema_->links + n.first_option, n.n_options};
}

uint32_t Settler::value_kinds(const Node& node) const {
  uint32_t kinds = node.kinds & kAllKinds;
  for (uint32_t i = 0; i < node.n_literals; ++i) {
    switch (schema_->part(schema_->literals[node.first_literal + i])[0]) {
      case 'n':
        kinds |= kNull;
        break;
      case 't':
      case 'f':
        kinds |= kBoolean;
        break;
      case '"':
        kinds |= kString;
        break;
      case '[':
        kinds |= kArray;
        break;
      case '{':
        kinds |= kObject;
        break;
      default:
        kinds |= kNumber;
        break;
    }
  }
  return kinds;
}

bool Settler::have_common_literal(const Node& a, const Node& b) {
  const TextPart* x = schema_->literals + a.first_literal;
  const TextPart* y = schema_->literals + b.first_literal;
  const TextPart* const x_end = x + a.n_literals;
  const TextPart* const y_end = y + b.n_literals;
  for (; x != x_end && y != y_end; ++tables_->n_compared) {
    const int order = schema_->part(*x).compare(schema_->part(*y));
    if (order == 0) return true;
    (order < 0 ? x : y) += 1;
  }
  return false;
}

// Whether two schemas of objects require one property, with strings that they do not share.
bool Settler::are_tagged(const Node& a, const Node& b) {
  const auto strings = [this](const Node& n) {
    return n.kinds == kLiterals && value_kinds(n) == kString;
  };
  uint32_t k = 0;
  for (uint32_t i = 0; i < a.n_properties; ++i) {
    const Property& p =
        schema_->properties[a.first_property + schema_->by_name[a.first_property + i]];
    for (; k < b.n_properties; ++k) {
      if (++tables_->n_compared > kMostCompared) return false;
      const uint32_t other = schema_->by_name[b.first_property + k];
      const Property& q = schema_->properties[b.first_property + other];
      const int order = schema_->part(p.name).compare(schema_->part(q.name));
      if (order < 0) break;
      if (order > 0) continue;
      const bool both_required =
          p.reach == schema_->by_name[a.first_property + i] && q.reach == other;
      const Node& x = schema_->nodes[p.node];
      const Node& y = schema_->nodes[q.node];
      if (both_required && strings(x) && strings(y) && !have_common_literal(x, y)) return true;
    }
  }
  return false;
}

bool Settler::are_apart(const Node& a, const Node& b) {
  const uint32_t common = value_kinds(a) & value_kinds(b);
  if (common == 0) return true;
  if (common == kString && a.kinds == kLiterals && b.kinds == kLiterals) {
    return !have_common_literal(a, b);
  }
  return common == kObject && a.n_literals == 0 && b.n_literals == 0 && are_tagged(a, b);
}

Status Settler::check_one_of(const Node& node) {
  const uint32_t* const options = schema_->links + node.first_prefix;
  for (uint32_t i = 0; i < node.n_prefix; ++i) {
    for (uint32_t k = 0; k < i; ++k) {
      if (++tables_->n_compared > kMostCompared) return too_long(node);
      for (const uint32_t a : leaves(options + i)) {
        for (const uint32_t b : leaves(options + k)) {
          if (are_apart(schema_->nodes[a], schema_->nodes[b])) continue;
          if (tables_->n_compared > kMostCompared) return too_long(node);
          return refuse(node, "oneOf",
                        "has alternatives that can be true together; use anyOf, or require a "
                        "property of different constants in each",
                        Status::kUnsupported);
        }
      }
    }
  }
  return Status::kOk;
}

uint8_t inside(uint8_t depth) {
  return depth >= kMostDepth ? kImpossible : static_cast<uint8_t>(depth + 1);
}

uint8_t Settler::depth_of_array(const Node& node) const {
  if (node.least_items > node.most_items) return kImpossible;
  uint8_t deepest = 0;
  for (uint32_t i = 0; i < std::min(node.least_items, node.n_prefix); ++i) {
    deepest = std::max(deepest, schema_->nodes[schema_->links[node.first_prefix + i]].depth);
  }
  if (node.least_items > node.n_prefix)
    deepest = std::max(deepest, schema_->nodes[node.items].depth);
  return inside(deepest);
}

uint8_t Settler::depth_of_object(const Node& node) const {
  uint8_t deepest = 0;
  for (uint32_t i = 0; i < node.n_properties; ++i) {
    const Property& p = schema_->properties[node.first_property + i];
    if (p.reach == i) deepest = std::max(deepest, schema_->nodes[p.node].depth);
  }
  return inside(deepest);
}

bool Settler::measure_node(Node* node) {
  uint8_t depth = kImpossible;
  if ((node->kinds & ~(kArray | kObject)) != 0) depth = 0;
  if ((node->kinds & kArray) != 0) {
    node->array_depth = depth_of_array(*node);
    depth = std::min(depth, node->array_depth);
  }
  if ((node->kinds & kObject) != 0) {
    node->object_depth = depth_of_object(*node);
    depth = std::min(depth, node->object_depth);
  }
  for (uint32_t i = 0; i < node->n_options; ++i) {
    depth = std::min(depth, schema_->nodes[schema_->links[node->first_option + i]].depth);
  }
  const bool changes = depth != node->depth;
  node->depth = depth;
  return changes;
}

// What a node needs only falls, by whole containers, so that it ends soon.
void Settler::measure() {
  for (uint32_t i = first_; i < schema_->n_nodes; ++i) {
    Node& n = schema_->nodes[i];
    n.depth = n.array_depth = n.object_depth = kImpossible;
  }
  for (bool changes = true; changes;) {
    changes = false;
    for (uint32_t i = first_; i < schema_->n_nodes; ++i) {
      if (measure_node(&schema_->nodes[i])) changes = true;
    }
  }
}

}  // namespace

Status settle_nodes(SchemaTables* tables, uint32_t first, Strictness strictness, Refusal* refusal) {
  return Settler(tables, first, refusal).settle(strictness);
}

}  // namespace cria::json
