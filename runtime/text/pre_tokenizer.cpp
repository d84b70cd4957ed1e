#include "runtime/text/pre_tokenizer.h"

#include "quant/unicode.h"

namespace cria {
namespace {

using format::PreTokenizer;

constexpr uint32_t kApostrophe = '\'';
constexpr uint32_t kSpaceMark = 0x2581;

// One character of the text, or its end.
struct Peeked {
  uint32_t code;
  size_t next;  // offset behind it
  CharClass kind;
  bool at_end;

  [[nodiscard]] bool is(CharClass wanted) const { return !at_end && kind == wanted; }
  [[nodiscard]] bool is_code(uint32_t wanted) const { return !at_end && code == wanted; }
  [[nodiscard]] bool is_newline() const { return is_code('\r') || is_code('\n'); }
};

Peeked peek(const PrefixedText& text, size_t offset) {
  if (offset >= text.n_bytes) return {0, offset, CharClass::kOther, true};
  const Utf8Char c = text.char_at(offset);
  return {c.code, offset + c.n_bytes, char_class(c.code), false};
}

// End of the characters of one class from offset on, at most limit of them.
size_t skip_class(const PrefixedText& text, size_t offset, CharClass kind, size_t limit) {
  for (size_t i = 0; i < limit; ++i) {
    const Peeked c = peek(text, offset);
    if (!c.is(kind)) break;
    offset = c.next;
  }
  return offset;
}

constexpr size_t kNoLimit = SIZE_MAX;

enum class LetterCase { kExact, kIgnored };

// The letter, in lower case if case is ignored. U+017F is the one character outside ASCII that
// Unicode folds to a letter of the contractions.
uint32_t fold(const Peeked& c, LetterCase letter_case) {
  constexpr uint32_t kLongS = 0x17f;
  constexpr uint32_t kCaseBit = 0x20;
  if (c.at_end) return 0;
  if (letter_case == LetterCase::kExact) return c.code;
  if (c.code == kLongS) return 's';
  return c.code >= 'A' && c.code <= 'Z' ? c.code | kCaseBit : c.code;
}

// End of 's, 't, 're, 've, 'm, 'll or 'd at offset; offset itself when there is none.
size_t skip_contraction(const PrefixedText& text, size_t offset, LetterCase letter_case) {
  const Peeked quote = peek(text, offset);
  if (!quote.is_code(kApostrophe)) return offset;
  const Peeked first = peek(text, quote.next);
  const uint32_t a = fold(first, letter_case);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return first.next;
  if (a != 'r' && a != 'v' && a != 'l') return offset;
  const Peeked second = peek(text, first.next);
  const uint32_t b = fold(second, letter_case);
  return b == (a == 'l' ? 'l' : 'e') ? second.next : offset;
}

// A run of white space, and the places where the regexes cut it.
struct SpaceRun {
  size_t end;
  size_t last_char;     // where its last character starts
  size_t newlines_end;  // behind its last CR or LF; where it starts when there is none
};

SpaceRun scan_spaces(const PrefixedText& text, size_t offset) {
  SpaceRun run = {offset, offset, offset};
  for (;;) {
    const Peeked c = peek(text, run.end);
    if (!c.is(CharClass::kSpace)) return run;
    run.last_char = run.end;
    run.end = c.next;
    if (c.is_newline()) run.newlines_end = run.end;
  }
}

enum class Digits { kTogether, kApart };

// \s+(?!\S)|\s+ : the last space of several goes with the word that follows. Where digits are split
// off first, the text before a digit is a text of its own.
size_t end_of_spaces(const PrefixedText& text, size_t offset, const SpaceRun& run, Digits digits) {
  const Peeked follower = peek(text, run.end);
  const bool ends_text =
      follower.at_end || (digits == Digits::kApart && follower.is(CharClass::kNumber));
  return ends_text || run.last_char == offset ? run.end : run.last_char;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t gpt2_word_end(const PrefixedText& text, size_t offset, Digits digits) {
  const Peeked first = peek(text, offset);
  if (digits == Digits::kApart && first.is(CharClass::kNumber)) return first.next;
  const size_t contraction = skip_contraction(text, offset, LetterCase::kExact);
  if (contraction > offset) return contraction;
  const size_t start = first.is_code(' ') ? first.next : offset;
  const Peeked c = peek(text, start);
  const bool number_apart = digits == Digits::kApart && c.is(CharClass::kNumber);
  if (!c.at_end && c.kind != CharClass::kSpace && !number_apart) {
    return skip_class(text, start, c.kind, kNoLimit);
  }
  return end_of_spaces(text, offset, scan_spaces(text, offset), digits);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,limit}| ?[^\s\p{L}\p{N}]+[\r\n]*
// |\s*[\r\n]+|\s+(?!\S)|\s+
size_t llama3_word_end(const PrefixedText& text, size_t offset, size_t number_limit) {
  const size_t contraction = skip_contraction(text, offset, LetterCase::kIgnored);
  if (contraction > offset) return contraction;
  const Peeked first = peek(text, offset);
  const bool joins_letters =
      !first.is_newline() && !first.is(CharClass::kLetter) && !first.is(CharClass::kNumber);
  const size_t letters = joins_letters ? first.next : offset;
  const size_t letters_end = skip_class(text, letters, CharClass::kLetter, kNoLimit);
  if (letters_end > letters) return letters_end;
  if (first.is(CharClass::kNumber)) {
    return skip_class(text, offset, CharClass::kNumber, number_limit);
  }
  const size_t others = first.is_code(' ') ? first.next : offset;
  size_t end = skip_class(text, others, CharClass::kOther, kNoLimit);
  if (end > others) {
    for (Peeked c = peek(text, end); c.is_newline(); c = peek(text, end)) end = c.next;
    return end;
  }
  const SpaceRun run = scan_spaces(text, offset);
  if (run.newlines_end > offset) return run.newlines_end;
  return end_of_spaces(text, offset, run, Digits::kTogether);
}

bool is_space_mark(const Peeked& c) { return c.is_code(' ') || c.is_code(kSpaceMark); }

size_t space_runs_word_end(const PrefixedText& text, size_t offset) {
  Peeked c = peek(text, offset);
  while (is_space_mark(c)) c = peek(text, offset = c.next);
  while (!c.at_end && !is_space_mark(c)) c = peek(text, offset = c.next);
  return offset;
}

size_t metaspace_word_end(const PrefixedText& text, size_t offset) {
  Peeked c = peek(text, offset);
  do {
    offset = c.next;
    c = peek(text, offset);
  } while (!c.at_end && !is_space_mark(c));
  return offset;
}

}  // namespace

size_t word_end(PreTokenizer kind, const PrefixedText& text, size_t offset) {
  constexpr size_t kLlama3Digits = 3;
  switch (kind) {
    case PreTokenizer::kWhole:
      return text.n_bytes;
    case PreTokenizer::kGpt2:
      return gpt2_word_end(text, offset, Digits::kTogether);
    case PreTokenizer::kLlama3:
      return llama3_word_end(text, offset, kLlama3Digits);
    case PreTokenizer::kDigitsGpt2:
      return gpt2_word_end(text, offset, Digits::kApart);
    case PreTokenizer::kQwen2:
      return llama3_word_end(text, offset, 1);
    case PreTokenizer::kSpaceRuns:
      return space_runs_word_end(text, offset);
    case PreTokenizer::kMetaspace:
      return metaspace_word_end(text, offset);
  }
  return text.n_bytes;
}

}  // namespace cria
