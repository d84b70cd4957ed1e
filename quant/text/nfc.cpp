#include "quant/text/nfc.h"

#include <algorithm>

#include "quant/text/nfc_tables.h"
#include "quant/text/utf8.h"

#if CRIA_WITH_NFC

namespace cria {
namespace {

// Hangul syllables are computed.
constexpr uint32_t kSyllables = 0xac00;
constexpr uint32_t kLeading = 0x1100;
constexpr uint32_t kVowels = 0x1161;
constexpr uint32_t kTrailing = 0x11a7;  // one before the first
constexpr uint32_t kLeadingCount = 19;
constexpr uint32_t kVowelCount = 21;
constexpr uint32_t kTrailingCount = 28;  // with none
constexpr uint32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

constexpr uint32_t kNoCode = 0xffffffff;
// A byte that is no character: no code of Unicode, so that nothing touches it.
constexpr uint32_t kRawByte = 0x200000;
constexpr uint32_t kByteMask = 0xff;

bool is_syllable(uint32_t code) { return code - kSyllables < kSyllableCount; }

uint32_t class_of(uint32_t code) {
  constexpr uint32_t kFirstMark = 0x300;
  constexpr uint32_t kClassBits = 8;
  constexpr uint32_t kClassMask = 0xff;
  constexpr uint32_t kLastCode = 0x10ffff;
  if (code < kFirstMark || code > kLastCode) return 0;
  const auto runs = kNfcTables.class_runs;
  const auto behind = std::partition_point(
      runs.begin(), runs.end(), [code](uint32_t run) { return run >> kClassBits <= code; });
  return *std::prev(behind) & kClassMask;
}

const CanonicalParts* find_parts(uint32_t code) {
  constexpr uint32_t kFirstWithParts = 0xc0;
  if (code < kFirstWithParts) return nullptr;
  const auto parts = kNfcTables.parts;
  const auto found = std::lower_bound(
      parts.begin(), parts.end(), code,
      [](const CanonicalParts& each, uint32_t wanted) { return each.code < wanted; });
  return found != parts.end() && found->code == code ? &*found : nullptr;
}

// The character that two are put together to; kNoCode when there is none.
uint32_t compose(uint32_t first, uint32_t second) {
  if (first - kLeading < kLeadingCount && second - kVowels < kVowelCount) {
    return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowels)) * kTrailingCount;
  }
  if (is_syllable(first) && (first - kSyllables) % kTrailingCount == 0 && second > kTrailing &&
      second - kTrailing < kTrailingCount) {
    return first + (second - kTrailing);
  }
  const auto pairs = kNfcTables.pairs;
  const auto found = std::partition_point(pairs.begin(), pairs.end(), [&](uint16_t pair) {
    const CanonicalParts& parts = kNfcTables.parts[pair];
    return parts.first != first ? parts.first < first : parts.second < second;
  });
  if (found == pairs.end()) return kNoCode;
  const CanonicalParts& parts = kNfcTables.parts[*found];
  return parts.first == first && parts.second == second ? parts.code : kNoCode;
}

// A text as the characters that it is made of when each is taken apart. Copies go on from where
// they were made.
class Parts {
 public:
  explicit Parts(std::span<const char> text) : text_(text) { open(); }

  [[nodiscard]] bool at_end() const { return n_ == 0; }
  // Whether a character of the text begins here.
  [[nodiscard]] bool at_character() const { return place_ == 0; }
  // Where that character, or the one that is being taken apart, begins.
  [[nodiscard]] size_t offset() const { return offset_; }
  [[nodiscard]] uint32_t code() const { return codes_[place_]; }
  [[nodiscard]] uint32_t combining_class() const { return class_of(code()); }
  void next() {
    if (++place_ < n_) return;
    offset_ += n_bytes_;
    open();
  }

 private:
  // Takes the character at offset_ apart: the last part first.
  void open() {
    place_ = 0;
    n_ = 0;
    n_bytes_ = 0;
    if (offset_ == text_.size()) return;
    const Utf8Char c = decode_utf8(text_.data() + offset_, text_.size() - offset_);
    n_bytes_ = c.n_bytes;
    uint32_t code = c.code;
    const bool is_itself = c.n_bytes == kReplacementBytes &&
                           std::equal(kReplacementText, kReplacementText + kReplacementBytes,
                                      text_.begin() + static_cast<ptrdiff_t>(offset_));
    if (code == kReplacementCharacter && !is_itself) {
      n_bytes_ = 1;
      code = kRawByte | static_cast<uint8_t>(text_[offset_]);
    }
    uint32_t reversed[kMostParts];
    if (is_syllable(code)) {
      const uint32_t index = code - kSyllables;
      if (index % kTrailingCount != 0) reversed[n_++] = kTrailing + index % kTrailingCount;
      reversed[n_++] = kVowels + index / kTrailingCount % kVowelCount;
      code = kLeading + index / (kTrailingCount * kVowelCount);
    }
    const CanonicalParts* parts = find_parts(code);
    for (; parts != nullptr && n_ + 1 < kMostParts; parts = find_parts(code)) {
      if (parts->second != 0) reversed[n_++] = parts->second;
      code = parts->first;
    }
    reversed[n_++] = code;
    std::reverse_copy(reversed, reversed + n_, codes_);
  }

  static constexpr size_t kMostParts = 4;
  std::span<const char> text_;
  size_t offset_ = 0;
  size_t n_bytes_ = 0;
  size_t place_ = 0;
  size_t n_ = 0;
  uint32_t codes_[kMostParts];
};

// A run of marks in their canonical order: by class, those of one class as they stand.
class OrderedMarks {
 public:
  explicit OrderedMarks(const Parts& begin) : begin_(begin), place_(begin) { seek(1); }

  [[nodiscard]] bool at_end() const { return class_ == kNone; }
  [[nodiscard]] uint32_t code() const { return place_.code(); }
  [[nodiscard]] uint32_t combining_class() const { return class_; }
  void next() {
    place_.next();
    if (!find()) seek(class_ + 1);
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;

  // Goes on to a mark of the class.
  bool find() {
    for (; !place_.at_end(); place_.next()) {
      const uint32_t found = place_.combining_class();
      if (found == 0) return false;
      if (found == class_) return true;
    }
    return false;
  }
  // Goes to the first mark of the lowest class from least on.
  void seek(uint32_t least) {
    class_ = kNone;
    for (Parts each = begin_; !each.at_end(); each.next()) {
      const uint32_t found = each.combining_class();
      if (found == 0) break;
      if (found < least || found >= class_) continue;
      class_ = found;
      place_ = each;
    }
  }

  Parts begin_;
  Parts place_;
  uint32_t class_ = kNone;
};

class Writer {
 public:
  explicit Writer(std::span<char> out) : out_(out) {}

  [[nodiscard]] size_t n_written() const { return n_; }
  void put(uint32_t code) {
    constexpr uint32_t kPayloadBits = 6;
    constexpr uint32_t kPayloadMask = 0x3f;
    constexpr uint32_t kContinuation = 0x80;
    if (code == kNoCode) return;
    if ((code & kRawByte) != 0) {
      put_byte(code & kByteMask);
    } else if (code < 0x80) {
      put_byte(code);
    } else if (code < 0x800) {
      put_byte(0xc0 | code >> kPayloadBits);
      put_byte(kContinuation | (code & kPayloadMask));
    } else if (code < 0x10000) {
      put_byte(0xe0 | code >> 2 * kPayloadBits);
      put_byte(kContinuation | (code >> kPayloadBits & kPayloadMask));
      put_byte(kContinuation | (code & kPayloadMask));
    } else {
      put_byte(0xf0 | code >> 3 * kPayloadBits);
      put_byte(kContinuation | (code >> 2 * kPayloadBits & kPayloadMask));
      put_byte(kContinuation | (code >> kPayloadBits & kPayloadMask));
      put_byte(kContinuation | (code & kPayloadMask));
    }
  }

 private:
  void put_byte(uint32_t byte) {
    if (n_ < out_.size()) out_[n_] = static_cast<char>(static_cast<uint8_t>(byte));
    if (n_ <= out_.size()) ++n_;
  }

  std::span<char> out_;
  size_t n_ = 0;
};

// Puts a starter and the marks after it together. A mark joins it unless one that is left stands
// between them and has as high a class. The marks that are left go to out if there is one.
struct Joined {
  uint32_t starter;
  bool leaves_marks;
};

Joined join_marks(uint32_t starter, const Parts& marks, Writer* out) {
  uint32_t last_class = 0;
  for (OrderedMarks mark(marks); !mark.at_end(); mark.next()) {
    const uint32_t joined = starter != kNoCode && last_class < mark.combining_class()
                                ? compose(starter, mark.code())
                                : kNoCode;
    if (joined != kNoCode) {
      starter = joined;
    } else {
      last_class = mark.combining_class();
      if (out != nullptr) out->put(mark.code());
    }
  }
  return {starter, last_class != 0};
}

// Writes a starter with all that joins it, and the marks that do not.
void normalize_starter(Parts* parts, Writer* out) {
  uint32_t starter = kNoCode;
  if (parts->combining_class() == 0) {
    starter = parts->code();
    parts->next();
  }
  for (;;) {
    const Parts marks = *parts;
    while (!parts->at_end() && parts->combining_class() != 0) parts->next();
    const Joined joined = join_marks(starter, marks, nullptr);
    const uint32_t next = !joined.leaves_marks && !parts->at_end() && starter != kNoCode
                              ? compose(joined.starter, parts->code())
                              : kNoCode;
    if (next == kNoCode) {
      out->put(joined.starter);
      (void)join_marks(starter, marks, out);
      return;
    }
    starter = next;
    parts->next();
  }
}

}  // namespace

bool is_surely_nfc(std::span<const char> text) {
  constexpr uint32_t kFirstChanging = 0x300;
  constexpr uint8_t kLeadOfFirst = 0xcc;  // the lead byte of U+0300
  const auto ranges = kNfcTables.changing;
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < kLeadOfFirst) {
      ++i;
      continue;
    }
    const Utf8Char c = decode_utf8(text.data() + i, text.size() - i);
    i += c.n_bytes;
    if (c.code < kFirstChanging) continue;
    const auto behind =
        std::partition_point(ranges.begin(), ranges.end(),
                             [&c](const CodeRange& range) { return range.first <= c.code; });
    if (behind != ranges.begin() && std::prev(behind)->last >= c.code) return false;
  }
  return true;
}

NfcSegment normalize_segment(std::span<const char> text, std::span<char> out) {
  Parts parts(text);
  Writer writer(out);
  // A character that is taken apart and stays so may end a segment in its middle.
  do {
    normalize_starter(&parts, &writer);
  } while (!parts.at_end() && !parts.at_character());
  return {parts.offset(), writer.n_written()};
}

}  // namespace cria

#endif
