#include "runtime/json/schema_text.h"

#include <algorithm>
#include <utility>

#include "quant/text/utf8.h"
#include "runtime/json/formats.h"
#include "runtime/json/number_range.h"
#include "runtime/json/pattern.h"
#include "runtime/json/text_part.h"

namespace cria::json {
namespace {

constexpr size_t kHexDigits = 4;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Reader {
 public:
  Reader(std::string_view text, SchemaValue* values, SchemaCounts* counts, Refusal* refusal)
      : text_(text), values_(values), counts_(counts), refusal_(refusal) {}

  Status read();

 private:
  enum class Expects { kValue, kFirstItem, kFirstName, kName, kBehindValue };

  Status refuse(const char* reason, Status status = Status::kUnsupported) {
    *refusal_ = {at_, reason, {}};
    return status;
  }
  [[nodiscard]] char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] bool in_object() const { return (objects_ >> (depth_ - 1) & 1) != 0; }
  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  void add_value();
  void end_scalar(uint32_t value) {
    if (values_ != nullptr) values_[value].next = counts_->n_values;
  }
  Status open();
  Status close();
  Status name();
  Status value();
  Status string();
  Status escape();
  Status number();
  Status word(std::string_view word);
  void count_member(std::string_view name);
  void count_pattern(std::string_view pattern);
  void count_format(std::string_view name);
  void count_length(std::string_view number);
  void need_length(uint64_t length);
  // Of the object at hand.
  void note_pattern() { patterns_ |= uint64_t{1} << (depth_ - 1); }

  std::string_view text_;
  SchemaValue* values_;
  SchemaCounts* counts_;
  Refusal* refusal_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  uint64_t objects_ = 0;  // bit d: container d is an object
  uint32_t open_[kMostSchemaNesting] = {};
  // What the value at hand is, by its member's name.
  enum class Member { kOther, kPattern, kFormat, kLength };
  Member member_ = Member::kOther;
  uint32_t lengths_[kMostSchemaNesting] = {};  // the larger one of an open object's, and one
  uint64_t patterns_ = 0;                      // bit d: container d has a pattern or a format
  uint32_t formats_ = 0;                       // a bit each
  Expects expects_ = Expects::kValue;
};

void Reader::add_value() {
  if (values_ != nullptr) values_[counts_->n_values] = {static_cast<uint32_t>(at_), 0};
  ++counts_->n_values;
}

Status Reader::open() {
  if (depth_ == kMostSchemaNesting) {
    return refuse("is nested more than 64 deep", Status::kTextTooLong);
  }
  const bool is_object = here() == '{';
  open_[depth_] = counts_->n_values - 1;
  const uint64_t bit = uint64_t{1} << depth_;
  objects_ = is_object ? objects_ | bit : objects_ & ~bit;
  patterns_ &= ~bit;
  lengths_[depth_] = 0;
  ++depth_;
  ++at_;
  expects_ = is_object ? Expects::kFirstName : Expects::kFirstItem;
  return Status::kOk;
}

Status Reader::close() {
  if (here() != (in_object() ? '}' : ']')) return refuse("is not JSON");
  ++at_;
  --depth_;
  if ((patterns_ >> depth_ & 1) != 0) counts_->n_alive += lengths_[depth_];
  end_scalar(open_[depth_]);
  expects_ = Expects::kBehindValue;
  return Status::kOk;
}

// Called with the quote at hand; leaves what is after the closing one.
Status Reader::string() {
  ++counts_->n_strings;
  ++at_;
  while (here() != '"' || at_ >= text_.size()) {
    if (at_ >= text_.size()) return refuse("is not JSON: a string does not end");
    const char c = text_[at_];
    if (c == '\\') {
      CRIA_TRY(escape());
      continue;
    }
    if (static_cast<uint8_t>(c) < 0x20) return refuse("is not JSON: a control character");
    const Utf8Char character = decode_utf8(text_.data() + at_, text_.size() - at_);
    const bool is_replacement =
        part_of(text_, at_, kReplacementBytes) == std::string_view(kReplacementText);
    if (character.code == kReplacementCharacter && !is_replacement) {
      return refuse("is not UTF-8");
    }
    at_ += character.n_bytes;
  }
  ++at_;
  return Status::kOk;
}

Status Reader::escape() {
  uint32_t unit[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    if (text_.size() - at_ < 2 || text_[at_] != '\\')
      return refuse("is not JSON: half a character");
    const char c = text_[at_ + 1];
    if (c != 'u') {
      if (i != 0) return refuse("is not JSON: half a character");
      if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) {
        return refuse("is not JSON: an unknown escape");
      }
      at_ += 2;
      return Status::kOk;
    }
    if (text_.size() - at_ < 2 + kHexDigits) return refuse("is not JSON: a string does not end");
    for (size_t d = 0; d < kHexDigits; ++d) {
      const uint32_t digit = hex_value(static_cast<uint8_t>(text_[at_ + 2 + d]));
      if (digit > 15) return refuse("is not JSON: an unknown escape");
      unit[i] = unit[i] << 4 | digit;
    }
    const bool is_low = unit[i] >= kFirstLow && unit[i] < kBehindSurrogates;
    if (is_low != (i == 1)) return refuse("is not JSON: half a character");
    at_ += 2 + kHexDigits;
    if (unit[0] < kFirstHigh || unit[0] >= kBehindSurrogates) break;
  }
  return Status::kOk;
}

Status Reader::number() {
  const auto digits = [this] {
    const size_t begin = at_;
    while (is_digit(here())) ++at_;
    return at_ > begin;
  };
  if (here() == '-') ++at_;
  const bool is_zero = here() == '0';
  const size_t begin = at_;
  if (!digits() || (is_zero && at_ - begin > 1)) return refuse("is not JSON: a malformed number");
  if (here() == '.') {
    ++at_;
    if (!digits()) return refuse("is not JSON: a malformed number");
  }
  if (here() == 'e' || here() == 'E') {
    ++at_;
    if (here() == '+' || here() == '-') ++at_;
    if (!digits()) return refuse("is not JSON: a malformed number");
  }
  return Status::kOk;
}

Status Reader::word(std::string_view word) {
  if (part_of(text_, at_, word.size()) != word) return refuse("is not JSON");
  at_ += word.size();
  return Status::kOk;
}

void Reader::count_member(std::string_view name) {
  member_ = name == "pattern"                            ? Member::kPattern
            : name == "format"                           ? Member::kFormat
            : name == "minLength" || name == "maxLength" ? Member::kLength
                                                         : Member::kOther;
  if (name == "minimum" || name == "maximum" || name == "exclusiveMinimum" ||
      name == "exclusiveMaximum") {
    ++counts_->n_bounds;
  }
}

void Reader::need_length(uint64_t length) {
  const auto n_sets = static_cast<uint32_t>(std::min<uint64_t>(length, kMostCountedLength)) + 1;
  lengths_[depth_ - 1] = std::max(lengths_[depth_ - 1], n_sets);
}

void Reader::count_length(std::string_view number) {
  Decimal d = {};
  bool negative = false;
  static_cast<void>(read_decimal(number, &d, &negative));
  need_length(d.whole);
}

void Reader::count_pattern(std::string_view pattern) {
  const PatternRoom room = room_for_pattern(pattern);
  counts_->pattern_positions += room.positions;
  counts_->pattern_ranges += room.ranges;
}

// Its pattern is there once, however many have it.
void Reader::count_format(std::string_view name) {
  if (find_number_format(name) != nullptr) ++counts_->n_bounds;
  const uint32_t index = find_format(name);
  if (index == kFormats) return;
  const Format& format = format_at(index);
  note_pattern();
  if (format.most_characters > 0) need_length(format.most_characters);
  if ((formats_ >> index & 1) != 0) return;
  formats_ |= uint32_t{1} << index;
  ++counts_->n_formats;
  count_pattern(format.pattern);
}

Status Reader::name() {
  if (here() != '"') return refuse("is not JSON: a name is missing");
  const uint32_t index = counts_->n_values;
  const size_t begin = at_ + 1;
  add_value();
  ++counts_->n_members;
  CRIA_TRY(string());
  end_scalar(index);
  count_member(part_of(text_, begin, at_ - 1 - begin));
  skip_space();
  if (here() != ':') return refuse("is not JSON: a colon is missing");
  ++at_;
  expects_ = Expects::kValue;
  return Status::kOk;
}

Status Reader::value() {
  const Member member = std::exchange(member_, Member::kOther);
  const uint32_t index = counts_->n_values;
  const char c = here();
  const size_t begin = at_;
  if (c == '{' || c == '[') {
    add_value();
    if (c == '{') ++counts_->n_schemas;
    return open();
  }
  add_value();
  switch (c) {
    case '"':
      CRIA_TRY(string());
      if (member == Member::kPattern) {
        ++counts_->n_patterns;
        note_pattern();
        count_pattern(part_of(text_, begin + 1, at_ - begin - 2));
      } else if (member == Member::kFormat) {
        count_format(part_of(text_, begin + 1, at_ - begin - 2));
      }
      break;
    case 't':
      ++counts_->n_schemas;
      CRIA_TRY(word("true"));
      break;
    case 'f':
      ++counts_->n_schemas;
      CRIA_TRY(word("false"));
      break;
    case 'n':
      CRIA_TRY(word("null"));
      break;
    default:
      CRIA_TRY(number());
      if (member == Member::kLength) count_length(part_of(text_, begin, at_ - begin));
      break;
  }
  end_scalar(index);
  expects_ = Expects::kBehindValue;
  return Status::kOk;
}

Status Reader::read() {
  *counts_ = {};
  if (text_.size() > kMostSchemaBytes) {
    at_ = kMostSchemaBytes;
    return refuse("is longer than 1 MiB", Status::kTextTooLong);
  }
  for (;;) {
    skip_space();
    const bool ends = at_ == text_.size();
    switch (expects_) {
      case Expects::kBehindValue:
        if (depth_ == 0) return ends ? Status::kOk : refuse("is not JSON: something follows it");
        if (here() != ',') {
          if (ends) return refuse("is not JSON: it ends too early");
          CRIA_TRY(close());
          break;
        }
        ++at_;
        expects_ = in_object() ? Expects::kName : Expects::kValue;
        break;
      case Expects::kFirstName:
      case Expects::kName:
        if (ends) return refuse("is not JSON: it ends too early");
        CRIA_TRY(here() == '}' && expects_ == Expects::kFirstName ? close() : name());
        break;
      default:
        if (ends) {
          return refuse(counts_->n_values == 0 ? "is empty" : "is not JSON: it ends too early");
        }
        CRIA_TRY(here() == ']' && expects_ == Expects::kFirstItem ? close() : value());
        break;
    }
  }
}

}  // namespace

Status read_schema_text(std::string_view text, SchemaValue* values, SchemaCounts* counts,
                        Refusal* refusal) {
  return Reader(text, values, counts, refusal).read();
}

std::string_view SchemaText::raw(uint32_t value) const {
  const size_t begin = values_[value].offset;
  size_t end = begin + 1;
  if (text_[begin] == '"') {
    while (text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    return part_of(text_, begin + 1, end - begin - 1);
  }
  while (end < text_.size() &&
         std::string_view(",]} \n\r\t").find(text_[end]) == std::string_view::npos) {
    ++end;
  }
  return part_of(text_, begin, end - begin);
}

uint32_t next_character(std::string_view raw, size_t* at) {
  if (raw[*at] != '\\') {
    const Utf8Char c = decode_utf8(raw.data() + *at, raw.size() - *at);
    *at += c.n_bytes;
    return c.code;
  }
  const char escaped = raw[*at + 1];
  *at += 2;
  switch (escaped) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'u':
      break;
    default:
      return static_cast<uint8_t>(escaped);
  }
  const auto unit = [&] {
    uint32_t value = 0;
    for (size_t i = 0; i < kHexDigits; ++i) {
      value = value << 4 | hex_value(static_cast<uint8_t>(raw[(*at)++]));
    }
    return value;
  };
  const uint32_t first = unit();
  if (first < kFirstHigh || first >= kBehindSurrogates) return first;
  *at += 2;  // \u of the other half
  return join_surrogates(first, unit());
}

uint32_t hex_value(uint32_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  const uint32_t lower = c | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
}

size_t put_utf8(uint32_t code, char* out) {
  constexpr uint32_t kPayload = 0x3f;
  const auto byte = [out](size_t i, uint32_t value) {
    out[i] = static_cast<char>(static_cast<uint8_t>(value));
  };
  if (code < 0x80) {
    byte(0, code);
    return 1;
  }
  const size_t n_bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  const uint32_t lead = n_bytes == 2 ? 0xc0 : n_bytes == 3 ? 0xe0 : 0xf0;
  for (size_t i = n_bytes - 1; i > 0; --i) {
    byte(i, 0x80 | (code & kPayload));
    code >>= 6;
  }
  byte(0, lead | code);
  return n_bytes;
}

size_t put_json_character(uint32_t code, char* out) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (code >= 0x80) return put_utf8(code, out);
  const size_t at = kEscaped.find(static_cast<char>(code));
  if (at != std::string_view::npos) {
    out[0] = '\\';
    out[1] = kLetters[at];
    return 2;
  }
  if (code >= 0x20) return put_utf8(code, out);
  constexpr std::string_view kPrefix = "\\u00";
  std::copy(kPrefix.begin(), kPrefix.end(), out);
  out[4] = kDigits[code >> 4];
  out[5] = kDigits[code & 15];
  return 6;
}

}  // namespace cria::json
