#include "runtime/json/pattern.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "runtime/json/schema_text.h"
#include "runtime/json/text_part.h"

namespace cria::json {
namespace {

constexpr uint32_t kMostGroups = 16;
constexpr uint32_t kRangesPerByte = 6;  // of an expression, as a schema writes it
constexpr uint32_t kMostRepeats = 1000;
constexpr uint32_t kEnd = 0xffffffff;  // of the expression, as a character
constexpr uint32_t kFirstSurrogate = 0xd800;
constexpr uint32_t kLastSurrogate = 0xdfff;

// \d, \w and \s hold other characters in ECMA-262 than in Python, Rust or Java. Those that are
// members everywhere, and those that are anywhere or may come to be: what is written must match for
// every reader.
constexpr CharacterRange kDigits[] = {{'0', '9'}};
constexpr CharacterRange kAnyDigits[] = {{'0', '9'},       {0x660, 0x1dff},    {0xa620, 0xabff},
                                         {0xff10, 0xff19}, {0x10000, 0x1efff}, {0x1fbf0, 0x1fbf9}};
constexpr CharacterRange kWordCharacters[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
constexpr CharacterRange kAnyWordCharacters[] = {
    {'0', '9'},       {'A', 'Z'},        {'_', '_'},         {'a', 'z'},
    {0xaa, 0x200f},   {0x202a, 0x202e},  {0x203f, 0x2040},   {0x2054, 0x209f},
    {0x20c1, 0x218f}, {0x2427, 0x24ff},  {0x2776, 0x2793},   {0x2b74, 0x2fff},
    {0x3004, 0x3007}, {0x3021, 0x1efff}, {0x1f100, 0x1f2ff}, {0x1fa54, kLastCharacter}};
constexpr CharacterRange kSpaces[] = {{0x9, 0xd},       {0x20, 0x20},     {0xa0, 0xa0},
                                      {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                                      {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
constexpr CharacterRange kAnySpaces[] = {{0x9, 0xd},       {0x1c, 0x20},     {0x85, 0x85},
                                         {0xa0, 0xa0},     {0x1680, 0x1680}, {0x180e, 0x180e},
                                         {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                         {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
// What a class of two characters, three bytes of a schema, has room for; an opposite is one longer.
constexpr size_t kMostClassRanges = 3 * kRangesPerByte;
static_assert(std::size(kAnyWordCharacters) < kMostClassRanges &&
              std::size(kAnySpaces) < kMostClassRanges && std::size(kAnyDigits) < kMostClassRanges);
constexpr CharacterRange kLineEnds[] = {{0xa, 0xa}, {0xd, 0xd}, {0x2028, 0x2029}};

// A part of the expression, and what of it can be read first and last.
struct Fragment {
  PositionSet first;
  PositionSet last;
  bool nullable;
};
constexpr Fragment kEmptyText = {{}, {}, true};

// What is open: alternatives so far, and the one at hand.
struct Group {
  Fragment alternatives;
  Fragment sequence;
  uint32_t begin;  // its first position
};

bool is_writable(CharacterRange r, uint32_t excluded) {
  const auto has = [&r](uint32_t c) { return r.first <= c && c <= r.last; };
  if (excluded != 0 && r.first == excluded) ++r.first;
  if (excluded != 0 && r.last == excluded) --r.last;
  if (r.first > r.last) return false;
  if (has('\b') || has('\t') || has('\n') || has('\f') || has('\r')) return true;
  if (r.last < 0x20) return false;
  return r.first < kFirstSurrogate || r.last > kLastSurrogate;
}

class PatternReader {
 public:
  PatternReader(std::string_view raw, char excluded, PatternPools* pools, PatternProblem* problem)
      : raw_(raw),
        excluded_(static_cast<uint8_t>(excluded)),
        pools_(pools),
        base_(pools->n_positions),
        problem_(problem) {}

  Status read(Pattern* pattern, bool* matches);

 private:
  Status refuse(const char* reason, Status status = Status::kUnsupported) {
    *problem_ = {reason, at_};
    return status;
  }
  [[nodiscard]] uint32_t peek() const {
    size_t at = at_;
    return at < raw_.size() ? next_character(raw_, &at) : kEnd;
  }
  uint32_t take() { return at_ < raw_.size() ? next_character(raw_, &at_) : kEnd; }
  bool takes(uint32_t character) {
    if (peek() != character) return false;
    static_cast<void>(take());
    return true;
  }
  [[nodiscard]] uint32_t count() const { return pools_->n_positions - base_; }
  Position& position(uint32_t i) { return pools_->positions[base_ + i]; }

  Status add_position(uint32_t first_range, Fragment* fragment);
  Status add_universal(Fragment* fragment);
  void add_range(uint32_t first, uint32_t last) {
    pools_->ranges[pools_->n_ranges++] = {first, last};
  }
  void complement(uint32_t first_range);
  void merge(uint32_t first_range);
  void add_class(std::span<const CharacterRange> ranges, bool negated);
  bool add_named_class(uint32_t letter, bool negated);
  Status escaped_character(uint32_t* character);
  Status class_item(bool negated, uint32_t* character, bool* is_class);
  Status read_class(Fragment* fragment);
  Status atom(Fragment* fragment);
  Status number(uint32_t* value);
  Status quantifier(uint32_t begin, Fragment* fragment);
  Status repeat(uint32_t begin, uint32_t least, uint32_t most, bool endless, Fragment* fragment);
  void append(Fragment* sequence, const Fragment& behind);
  Status begin_branch(Group* group);
  Status end_branch(Group* group, bool anchored);
  Status read_all(Fragment* whole);
  void finish(const Fragment& whole, Pattern* pattern, bool* matches);
  void trim(PositionSet* ends);

  std::string_view raw_;
  uint32_t excluded_;
  PatternPools* pools_;
  uint32_t base_;
  PatternProblem* problem_;
  size_t at_ = 0;
};

Status PatternReader::add_position(uint32_t first_range, Fragment* fragment) {
  if (count() == kMostPositions) {
    return refuse("has more than 255 characters to match, repetitions written out",
                  Status::kTextTooLong);
  }
  const uint32_t i = count();
  pools_->positions[pools_->n_positions++] = {{}, first_range, pools_->n_ranges - first_range};
  *fragment = {};
  fragment->first.add(i);
  fragment->last.add(i);
  return Status::kOk;
}

// Any characters, any number of them.
Status PatternReader::add_universal(Fragment* fragment) {
  const uint32_t first_range = pools_->n_ranges;
  add_range(0, kLastCharacter);
  const uint32_t i = count();
  CRIA_TRY(add_position(first_range, fragment));
  position(i).follow.add(i);
  fragment->nullable = true;
  return Status::kOk;
}

// Of ranges that ascend and do not touch.
void PatternReader::complement(uint32_t first_range) {
  uint32_t next = 0;
  uint32_t n = first_range;
  for (uint32_t i = first_range; i < pools_->n_ranges; ++i) {
    const CharacterRange r = pools_->ranges[i];
    if (r.first > next) pools_->ranges[n++] = {next, r.first - 1};
    next = r.last + 1;
  }
  if (next <= kLastCharacter) pools_->ranges[n++] = {next, kLastCharacter};
  pools_->n_ranges = n;
}

void PatternReader::merge(uint32_t first_range) {
  CharacterRange* const begin = pools_->ranges + first_range;
  CharacterRange* const end = pools_->ranges + pools_->n_ranges;
  std::sort(begin, end, [](const CharacterRange& a, const CharacterRange& b) {
    return a.first < b.first || (a.first == b.first && a.last < b.last);
  });
  CharacterRange* out = begin;
  for (const CharacterRange* r = begin; r != end; ++r) {
    if (out != begin && r->first <= out[-1].last + 1) {
      out[-1].last = std::max(out[-1].last, r->last);
    } else {
      *out++ = *r;
    }
  }
  pools_->n_ranges = static_cast<uint32_t>(out - pools_->ranges);
}

void PatternReader::add_class(std::span<const CharacterRange> ranges, bool negated) {
  const uint32_t first_range = pools_->n_ranges;
  for (const CharacterRange& r : ranges) add_range(r.first, r.last);
  if (negated) complement(first_range);
}

// Where it is for a class that is negated as a whole, all that may be in it counts.
bool PatternReader::add_named_class(uint32_t letter, bool negated) {
  struct NamedClass {
    char letter;
    std::span<const CharacterRange> surely;
    std::span<const CharacterRange> perhaps;
  };
  constexpr NamedClass kClasses[] = {{'d', kDigits, kAnyDigits},
                                     {'w', kWordCharacters, kAnyWordCharacters},
                                     {'s', kSpaces, kAnySpaces}};
  for (const NamedClass& c : kClasses) {
    const bool is_opposite = letter == static_cast<uint32_t>(c.letter - 'a' + 'A');
    if (!is_opposite && letter != static_cast<uint32_t>(c.letter)) continue;
    add_class(negated != is_opposite ? c.perhaps : c.surely, is_opposite);
    return true;
  }
  return false;
}

// After a backslash, where no class follows.
Status PatternReader::escaped_character(uint32_t* character) {
  const size_t begin = at_;
  const uint32_t c = take();
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const bool is_digit = c >= '0' && c <= '9';
  *character = c;
  switch (c) {
    case 't':
      *character = '\t';
      return Status::kOk;
    case 'n':
      *character = '\n';
      return Status::kOk;
    case 'r':
      *character = '\r';
      return Status::kOk;
    case 'f':
      *character = '\f';
      return Status::kOk;
    case 'v':
      *character = '\v';
      return Status::kOk;
    case 'x':
    case 'u': {
      uint32_t value = 0;
      for (size_t n_digits = c == 'x' ? 2 : 4; n_digits > 0; --n_digits) {
        const uint32_t d = take();
        const bool is_low = d >= 'a' && d <= 'f';
        const bool is_high = d >= 'A' && d <= 'F';
        if (!is_low && !is_high && !(d >= '0' && d <= '9')) {
          return refuse("has an escape without its digits");
        }
        value = value << 4 | (is_low ? d - 'a' + 10 : is_high ? d - 'A' + 10 : d - '0');
      }
      *character = value;
      if (value < kFirstSurrogate || value > kLastSurrogate) return Status::kOk;
      return refuse("has half a character");
    }
    default:
      if (!is_letter && !is_digit && c != kEnd) return Status::kOk;
      at_ = begin;
      return refuse("has an escape that is not supported");
  }
}

// One member of a class: a character, or a class like \d, whose ranges are added.
Status PatternReader::class_item(bool negated, uint32_t* character, bool* is_class) {
  *is_class = false;
  *character = take();
  if (*character == kEnd) return refuse("has a class that does not end");
  if (*character != '\\') return Status::kOk;
  if (add_named_class(peek(), negated)) {
    static_cast<void>(take());
    *is_class = true;
    return Status::kOk;
  }
  if (takes('b')) {
    *character = '\b';
    return Status::kOk;
  }
  return escaped_character(character);
}

Status PatternReader::read_class(Fragment* fragment) {
  const uint32_t first_range = pools_->n_ranges;
  const bool negated = takes('^');
  while (!takes(']')) {
    uint32_t first = 0;
    uint32_t last = 0;
    bool is_class = false;
    CRIA_TRY(class_item(negated, &first, &is_class));
    if (peek() != '-') {
      if (!is_class) add_range(first, first);
      continue;
    }
    static_cast<void>(take());
    if (peek() == ']') {  // the last one is itself
      if (!is_class) add_range(first, first);
      add_range('-', '-');
      continue;
    }
    if (is_class) return refuse("has a range from a class");
    CRIA_TRY(class_item(negated, &last, &is_class));
    if (is_class || last < first) return refuse("has a range that ends before it begins");
    add_range(first, last);
  }
  merge(first_range);
  if (negated) complement(first_range);
  return add_position(first_range, fragment);
}

Status PatternReader::atom(Fragment* fragment) {
  const uint32_t first_range = pools_->n_ranges;
  const size_t begin = at_;
  uint32_t c = take();
  switch (c) {
    case '[':
      return read_class(fragment);
    case '.':
      add_class(kLineEnds, true);
      return add_position(first_range, fragment);
    case '\\':
      if (add_named_class(peek(), false)) {
        static_cast<void>(take());
        return add_position(first_range, fragment);
      }
      CRIA_TRY(escaped_character(&c));
      break;
    case '*':
    case '+':
    case '?':
    case '{':
      at_ = begin;
      return refuse("repeats nothing");
    case '^':
    case '$':
      at_ = begin;
      return refuse("has ^ or $ inside, which is not supported");
    case ']':
    case '}':
      at_ = begin;
      return refuse("has a bracket that nothing opened");
    default:
      break;
  }
  add_range(c, c);
  return add_position(first_range, fragment);
}

Status PatternReader::number(uint32_t* value) {
  if (peek() < '0' || peek() > '9') return refuse("has a repetition without its number");
  *value = 0;
  while (peek() >= '0' && peek() <= '9') {
    *value = *value * 10 + (take() - '0');
    if (*value > kMostRepeats) return refuse("repeats too often", Status::kTextTooLong);
  }
  return Status::kOk;
}

void PatternReader::append(Fragment* sequence, const Fragment& behind) {
  for_each(sequence->last, [&](uint32_t i) { position(i).follow |= behind.first; });
  if (sequence->nullable) sequence->first |= behind.first;
  if (!behind.nullable) sequence->last = {};
  sequence->last |= behind.last;
  sequence->nullable = sequence->nullable && behind.nullable;
}

// The fragment's positions are the newest, from begin on.
Status PatternReader::repeat(uint32_t begin, uint32_t least, uint32_t most, bool endless,
                             Fragment* fragment) {
  const Fragment once = *fragment;
  const uint32_t n = count() - begin;
  if (n == 0) return Status::kOk;  // nothing, however often
  const uint32_t copies = endless ? std::max(least, uint32_t{1}) : most;
  for (uint32_t k = 1; k < copies; ++k) {
    for (uint32_t i = 0; i < n; ++i) {
      if (count() == kMostPositions) {
        return refuse("has more than 255 characters to match, repetitions written out",
                      Status::kTextTooLong);
      }
      Position copy = position(begin + i);
      copy.follow = copy.follow.shifted(k * n);
      pools_->positions[pools_->n_positions++] = copy;
    }
  }
  *fragment = kEmptyText;
  for (uint32_t k = 0; k < copies; ++k) {
    Fragment next = {once.first.shifted(k * n), once.last.shifted(k * n), once.nullable};
    if (endless && k + 1 == copies) {
      for_each(next.last, [&](uint32_t i) { position(i).follow |= next.first; });
    }
    if (k >= least) next.nullable = true;
    append(fragment, next);
  }
  return Status::kOk;
}

Status PatternReader::quantifier(uint32_t begin, Fragment* fragment) {
  uint32_t least = 0;
  uint32_t most = 1;
  bool endless = false;
  switch (peek()) {
    case '?':
      break;
    case '*':
      endless = true;
      break;
    case '+':
      least = 1;
      endless = true;
      break;
    case '{':
      static_cast<void>(take());
      CRIA_TRY(number(&least));
      most = least;
      if (takes(',')) {
        endless = peek() == '}';
        if (!endless) CRIA_TRY(number(&most));
      }
      if (peek() != '}') return refuse("has a repetition that does not end");
      if (!endless && most < least)
        return refuse("has a repetition whose most is less than its least");
      break;
    default:
      return Status::kOk;
  }
  static_cast<void>(take());
  static_cast<void>(takes('?'));  // what is tried first changes no match of the whole
  return repeat(begin, least, most, endless, fragment);
}

Status PatternReader::begin_branch(Group* group) {
  group->sequence = kEmptyText;
  return takes('^') ? Status::kOk : add_universal(&group->sequence);
}

Status PatternReader::end_branch(Group* group, bool anchored) {
  if (!anchored) {
    Fragment rest = {};
    CRIA_TRY(add_universal(&rest));
    append(&group->sequence, rest);
  }
  return Status::kOk;
}

void unite(Group* group) {
  group->alternatives.first |= group->sequence.first;
  group->alternatives.last |= group->sequence.last;
  group->alternatives.nullable = group->alternatives.nullable || group->sequence.nullable;
  group->sequence = kEmptyText;
}

Status PatternReader::read_all(Fragment* whole) {
  Group groups[kMostGroups] = {};
  uint32_t depth = 0;
  CRIA_TRY(begin_branch(&groups[0]));
  for (;;) {
    Group* group = &groups[depth];
    const uint32_t c = peek();
    bool anchored = false;
    if (c == '$' && depth == 0) {
      static_cast<void>(take());
      if (peek() != kEnd && peek() != '|') {
        return refuse("has ^ or $ inside, which is not supported");
      }
      anchored = true;
    }
    if (peek() == kEnd || peek() == '|') {
      const bool ends = take() == kEnd;
      if (depth == 0) CRIA_TRY(end_branch(group, anchored));
      if (ends && depth != 0) return refuse("has a group that does not end");
      unite(group);
      if (ends) break;
      if (depth == 0) CRIA_TRY(begin_branch(group));
      continue;
    }
    Fragment fragment = {};
    uint32_t begin = count();
    if (c == '(') {
      static_cast<void>(take());
      if (takes('?') && !takes(':')) return refuse("has a group of a kind that is not supported");
      if (++depth == kMostGroups) return refuse("has groups too deep", Status::kTextTooLong);
      groups[depth] = {{}, kEmptyText, begin};
      continue;
    }
    if (c == ')') {
      if (depth == 0) return refuse("has a bracket that nothing opened");
      static_cast<void>(take());
      unite(group);
      fragment = group->alternatives;
      begin = group->begin;
      group = &groups[--depth];
    } else {
      CRIA_TRY(atom(&fragment));
    }
    CRIA_TRY(quantifier(begin, &fragment));
    append(&group->sequence, fragment);
  }
  *whole = groups[0].alternatives;
  return Status::kOk;
}

// Takes positions away from which no text can end, or which no character fits that can be written.
void PatternReader::trim(PositionSet* ends) {
  PositionSet writable = {};
  writable.add(0);
  for (uint32_t i = 1; i < count(); ++i) {
    const CharacterRange* const first = pools_->ranges + position(i).first_range;
    const auto can_write = [this](const CharacterRange& r) { return is_writable(r, excluded_); };
    if (std::any_of(first, first + position(i).n_ranges, can_write)) writable.add(i);
  }
  PositionSet alive = *ends & writable;
  for (bool grows = true; grows;) {
    grows = false;
    for (uint32_t i = 0; i < count(); ++i) {
      if (alive.has(i) || !writable.has(i) || !position(i).follow.meets(alive)) continue;
      alive.add(i);
      grows = true;
    }
  }
  for (uint32_t i = 0; i < count(); ++i) position(i).follow = position(i).follow & alive;
  *ends = *ends & alive;
}

void PatternReader::finish(const Fragment& whole, Pattern* pattern, bool* matches) {
  position(0).follow = whole.first;
  PositionSet ends = whole.last;
  if (whole.nullable) ends.add(0);
  trim(&ends);
  *matches = ends.has(0) || !position(0).follow.empty();
  *pattern = {ends, {}, base_, count(), pools_->n_ascii};
  PositionSet* const ascii = pools_->ascii + pools_->n_ascii;
  pools_->n_ascii += kAsciiCharacters;
  std::fill(ascii, ascii + kAsciiCharacters, PositionSet{});
  for (uint32_t i = 1; i < count(); ++i) {
    const Position& p = position(i);
    bool has_low = false;
    bool has_high = false;
    for (uint32_t k = 0; k < p.n_ranges; ++k) {
      const CharacterRange r = pools_->ranges[p.first_range + k];
      for (uint32_t c = r.first; c <= r.last && c < kAsciiCharacters; ++c) ascii[c].add(i);
      has_low = has_low || (r.first <= 0x20 && r.last >= kLineEnds[2].first - 1);
      has_high = has_high || (r.first <= kLineEnds[2].last + 1 && r.last == kLastCharacter);
    }
    if (has_low && has_high && p.follow.has(i) && excluded_ == 0) pattern->universal.add(i);
  }
  if (excluded_ != 0) ascii[excluded_] = {};
}

Status PatternReader::read(Pattern* pattern, bool* matches) {
  if (raw_.size() > kMostPatternBytes) {
    return refuse("is longer than 1024 bytes", Status::kTextTooLong);
  }
  Fragment start = {};
  CRIA_TRY(add_position(pools_->n_ranges, &start));
  Fragment whole = {};
  CRIA_TRY(read_all(&whole));
  finish(whole, pattern, matches);
  return Status::kOk;
}

// The members of set that character or range fits.
PositionSet fitting(const PatternPools& pools, const Pattern& pattern, const PositionSet& set,
                    CharacterRange characters) {
  PositionSet fit = {};
  const CharacterRange* known = nullptr;  // of the position before, as repetitions have them
  bool is_fit = false;
  for_each(set, [&](uint32_t i) {
    const Position& p = pools.positions[pattern.first_position + i];
    const CharacterRange* const first = pools.ranges + p.first_range;
    if (first != known && p.n_ranges > 0) {
      const CharacterRange* const end = first + p.n_ranges;
      const CharacterRange* const found = std::lower_bound(
          first, end, characters.first,
          [](const CharacterRange& r, uint32_t character) { return r.last < character; });
      is_fit = found != end && found->first <= characters.last;
      known = first;
    }
    if (is_fit && p.n_ranges > 0) fit.add(i);
  });
  return fit;
}

}  // namespace

PositionSet PositionSet::shifted(uint32_t n) const {
  PositionSet out = {};
  for_each(*this, [&](uint32_t i) {
    if (i + n < kMostPositions) out.add(i + n);
  });
  return out;
}

PatternRoom room_for_pattern(std::string_view raw) {
  const auto n_bytes = static_cast<uint32_t>(std::min(raw.size(), kMostPatternBytes));
  const std::string_view text = part_of(raw, 0, n_bytes);
  const auto n_branches = static_cast<uint32_t>(std::count(text.begin(), text.end(), '|')) + 1;
  // An escape of JSON may be the brace of a repetition.
  const bool repeats =
      text.find('{') != std::string_view::npos || text.find("\\u") != std::string_view::npos;
  const uint32_t written = 1 + n_bytes + 2 * n_branches;
  return {repeats ? kMostPositions : std::min(kMostPositions, written),
          kRangesPerByte * n_bytes + 2 * n_branches + 8};
}

Status read_pattern(std::string_view raw, char excluded, PatternPools* pools, Pattern* pattern,
                    bool* matches, PatternProblem* problem) {
  return PatternReader(raw, excluded, pools, problem).read(pattern, matches);
}

PositionSet pattern_start() {
  PositionSet start = {};
  start.add(0);
  return start;
}

PositionSet pattern_followers(const PatternPools& pools, const Pattern& pattern,
                              const PositionSet& from) {
  PositionSet next = {};
  for_each(from, [&](uint32_t i) { next |= pools.positions[pattern.first_position + i].follow; });
  return next;
}

PositionSet pattern_fitting(const PatternPools& pools, const Pattern& pattern,
                            const PositionSet& next, uint32_t character) {
  if (character < kAsciiCharacters) return next & pools.ascii[pattern.ascii + character];
  return fitting(pools, pattern, next, {character, character});
}

bool pattern_takes(const PatternPools& pools, const Pattern& pattern, const PositionSet& next,
                   CharacterRange characters) {
  return !fitting(pools, pattern, next, characters).empty();
}

PositionSet pattern_alive(const PatternPools& pools, const Pattern& pattern) {
  PositionSet alive = pattern.ends;
  for (uint32_t i = 0; i < pattern.n_positions; ++i) {
    if (!pools.positions[pattern.first_position + i].follow.empty()) alive.add(i);
  }
  return alive;
}

PositionSet pattern_before(const PatternPools& pools, const Pattern& pattern,
                           const PositionSet& set) {
  PositionSet before = {};
  for (uint32_t i = 0; i < pattern.n_positions; ++i) {
    if (pools.positions[pattern.first_position + i].follow.meets(set)) before.add(i);
  }
  return before;
}

}  // namespace cria::json
