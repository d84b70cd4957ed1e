#include "runtime/json/schema_names.h"

#include <algorithm>
#include <span>

#include "quant/text/utf8.h"
#include "runtime/json/text_part.h"

namespace cria::json {
namespace {

constexpr uint32_t kEnd = 0xffffffff;  // of a name, as a character that is after none
constexpr uint32_t kBroken = kEnd - 1;
constexpr uint32_t kMostItems = 1u << 16;  // that references pass, together
constexpr const char* kPointsToNothing = "points to nothing";

// The next character of a name and then the next; kEnd after the last.
class NameReader {
 public:
  explicit NameReader(std::string_view raw) : raw_(raw) {}
  uint32_t take() { return at_ < raw_.size() ? next_character(raw_, &at_) : kEnd; }

 private:
  std::string_view raw_;
  size_t at_ = 0;
};

// The same of the names in a reference, one after the other.
class PathReader {
 public:
  explicit PathReader(std::string_view raw) : raw_(raw) {}

  // kEnd after the last of a name; kBroken: an escape that is none.
  uint32_t take() {
    uint32_t c = character();
    has_next_ = c == '/';
    if (has_next_) return kEnd;
    if (c != '~') return c;
    c = character();
    return c == '0' ? '~' : c == '1' ? '/' : kBroken;
  }
  // After kEnd: whether another name follows.
  [[nodiscard]] bool has_next() const { return has_next_; }

 private:
  [[nodiscard]] bool is_over() const { return at_ >= raw_.size(); }
  uint32_t character() {
    if (is_over()) return kEnd;
    const uint32_t c = next_character(raw_, &at_);
    return c == '%' ? escaped() : c;
  }

  // A character whose bytes are written in hexadecimal, after the first percent sign.
  uint32_t escaped() {
    char bytes[kMostUtf8Bytes];
    size_t n_bytes = 0;
    size_t n_wanted = 1;
    while (n_bytes < n_wanted) {
      if (n_bytes > 0 && (is_over() || next_character(raw_, &at_) != '%')) return kBroken;
      uint32_t byte = 0;
      for (size_t i = 0; i < 2; ++i) {
        const uint32_t digit = is_over() ? kBroken : hex_value(next_character(raw_, &at_));
        if (digit > 15) return kBroken;
        byte = byte << 4 | digit;
      }
      bytes[n_bytes++] = static_cast<char>(static_cast<uint8_t>(byte));
      if (n_bytes == 1) n_wanted = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    }
    const Utf8Char c = decode_utf8(bytes, n_bytes);
    return c.n_bytes == n_bytes && c.code != kReplacementCharacter ? c.code : kBroken;
  }

  static constexpr size_t kMostUtf8Bytes = 4;

  std::string_view raw_;
  size_t at_ = 0;
  bool has_next_ = false;
};

template <typename A, typename B>
int compare(A a, B b) {
  for (;;) {
    const uint32_t x = a.take();
    const uint32_t y = b.take();
    if (x == y && x == kEnd) return 0;
    if (x == y) continue;
    if (x == kEnd) return -1;
    return y == kEnd || x > y ? 1 : -1;
  }
}

// A number of JSON pointers: of at most nine digits, without zeros before it; else kNone.
uint32_t index_of(PathReader name) {
  constexpr size_t kMostDigits = 9;
  uint32_t value = 0;
  for (size_t n_digits = 0;; ++n_digits) {
    const uint32_t c = name.take();
    if (c == kEnd && n_digits > 0) return value;
    if (c < '0' || c > '9' || n_digits == kMostDigits || (n_digits == 1 && value == 0))
      return kNone;
    value = value * 10 + (c - '0');
  }
}

std::span<const SchemaMember> members_of(const SchemaTables& tables, uint32_t object) {
  const SchemaMember* const begin = tables.members;
  const SchemaMember* const end = begin + tables.n_members;
  const SchemaMember* const first = std::lower_bound(
      begin, end, object, [](const SchemaMember& m, uint32_t wanted) { return m.object < wanted; });
  const SchemaMember* const last = std::upper_bound(
      first, end, object, [](uint32_t wanted, const SchemaMember& m) { return wanted < m.object; });
  return {first, last};
}

// The value of an object's member; why not: there is none, or there are two.
const char* find_member(const SchemaTables& tables, uint32_t object, const PathReader& name,
                        uint32_t* value) {
  const std::span<const SchemaMember> members = members_of(tables, object);
  const auto order = [&](const SchemaMember& m) {
    return compare(NameReader(tables.text.raw(m.name)), name);
  };
  const auto found = std::partition_point(members.begin(), members.end(),
                                          [&](const SchemaMember& m) { return order(m) < 0; });
  if (found == members.end() || order(*found) != 0) return kPointsToNothing;
  if (found + 1 != members.end() && order(found[1]) == 0) {
    return "goes through a name that appears twice";
  }
  *value = found->name + 1;
  return nullptr;
}

}  // namespace

int compare_names(std::string_view a, std::string_view b) {
  return compare(NameReader(a), NameReader(b));
}

void sort_members(SchemaTables* tables) {
  const SchemaText& text = tables->text;
  tables->n_members = 0;
  for (uint32_t object = 0; object < tables->n_values; ++object) {
    if (text.kind(object) != '{') continue;
    for (uint32_t name = object + 1; name < text.next(object); name = text.next(name + 1)) {
      tables->members[tables->n_members++] = {object, name};
    }
  }
  std::sort(tables->members, tables->members + tables->n_members,
            [&text](const SchemaMember& a, const SchemaMember& b) {
              if (a.object != b.object) return a.object < b.object;
              const int order = compare_names(text.raw(a.name), text.raw(b.name));
              return order < 0 || (order == 0 && a.name < b.name);
            });
}

uint32_t find_twin(const SchemaTables& tables, uint32_t object) {
  const std::span<const SchemaMember> members = members_of(tables, object);
  uint32_t twin = kNone;
  for (size_t i = 1; i < members.size(); ++i) {
    if (members[i].name > twin) continue;
    const std::string_view name = tables.text.raw(members[i].name);
    if (compare_names(tables.text.raw(members[i - 1].name), name) == 0) twin = members[i].name;
  }
  return twin;
}

const char* follow_reference(const SchemaTables& tables, std::string_view raw, uint32_t* n_items,
                             uint32_t* target) {
  constexpr const char* kNoPath = "points out of the schema, or is not written as a path";
  const SchemaText& text = tables.text;
  uint32_t at = tables.root;
  PathReader path(part_of(raw, 1));
  const bool is_path = raw.starts_with('#') && path.take() == kEnd;
  if (!is_path || (raw.size() > 1 && !path.has_next())) return kNoPath;
  while (path.has_next()) {
    const PathReader name = path;
    uint32_t c = 0;
    while (c != kEnd && c != kBroken) c = path.take();
    if (c == kBroken) return "has an unknown escape";
    if (text.kind(at) == '{') {
      if (const char* const problem = find_member(tables, at, name, &at)) return problem;
      continue;
    }
    uint32_t n_before = text.kind(at) == '[' ? index_of(name) : kNone;
    const uint32_t end = text.next(at);
    if (n_before == kNone) return kPointsToNothing;
    for (++at; n_before > 0 && at < end; --n_before) {
      if (++*n_items > kMostItems) return "goes past more than 65536 items of lists";
      at = text.next(at);
    }
    if (at >= end) return kPointsToNothing;
  }
  *target = at;
  return nullptr;
}

}  // namespace cria::json
