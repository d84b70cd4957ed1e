#include "runtime/added_tokens.h"

#include <algorithm>

namespace cria {
namespace {

using format::kNone;
using format::TokenizerKind;

constexpr uint32_t kBitsPerWord = 32;

uint32_t byte_value(char byte) { return static_cast<uint8_t>(byte); }

AddedStage stage_of(uint8_t flags) {
  return (flags & format::kTokenNormalized) != 0 ? AddedStage::kNormalized : AddedStage::kRaw;
}

// Whether text has the token's bytes at offset, which is moved behind them. With folds_spaces a
// space of the text equals a U+2581 of the token.
bool skip_bytes(const PrefixedText& text, std::span<const char> bytes, bool folds_spaces,
                size_t* offset) {
  size_t place = *offset;
  for (size_t i = 0; i < bytes.size();) {
    if (place >= text.n_bytes) return false;
    const char byte = text.byte_at(place);
    const bool is_mark = folds_spaces && byte == ' ' && bytes.size() - i >= kSpaceMarkBytes &&
                         std::equal(kSpaceMarkText, kSpaceMarkText + kSpaceMarkBytes, &bytes[i]);
    if (!is_mark && byte != bytes[i]) return false;
    i += is_mark ? kSpaceMarkBytes : 1;
    ++place;
  }
  *offset = place;
  return true;
}

// Where the U+2581, or space, that ends at offset starts; offset itself when there is none.
size_t space_mark_before(const PrefixedText& text, size_t from, size_t offset) {
  if (offset > from && text.byte_at(offset - 1) == ' ') return offset - 1;
  if (offset - from < kSpaceMarkBytes) return offset;
  for (size_t i = 0; i < kSpaceMarkBytes; ++i) {
    if (text.byte_at(offset - kSpaceMarkBytes + i) != kSpaceMarkText[i]) return offset;
  }
  return offset - kSpaceMarkBytes;
}

size_t skip_spaces_left(const PrefixedText& text, size_t from, size_t offset) {
  constexpr size_t kLongestSpaceBytes = 3;
  while (offset > from) {
    size_t begin = offset;
    for (size_t n = 1; n <= std::min(kLongestSpaceBytes, offset - from); ++n) {
      const Utf8Char c = text.char_at(offset - n);
      if (c.n_bytes == n && char_class(c.code) == CharClass::kSpace) begin = offset - n;
    }
    if (begin == offset) break;
    offset = begin;
  }
  return offset;
}

size_t skip_spaces_right(const PrefixedText& text, size_t offset) {
  while (offset < text.n_bytes) {
    const Utf8Char c = text.char_at(offset);
    if (char_class(c.code) != CharClass::kSpace) break;
    offset += c.n_bytes;
  }
  return offset;
}

}  // namespace

AddedTokens::AddedTokens(const Tokenizer& tokenizer, std::span<const TextRange> plain,
                         bool needs_space)
    : tokenizer_(tokenizer),
      plain_(plain),
      needs_space_(needs_space),
      stage_there_{},
      first_bytes_{} {
  for (uint32_t i = 0; i < tokenizer.header.n_added; ++i) {
    const uint32_t token = tokenizer.added_tokens[i];
    const uint32_t byte = byte_value(token_text(tokenizer, token)[0]);
    first_bytes_[byte / kBitsPerWord] |= uint32_t{1} << byte % kBitsPerWord;
    stage_there_[static_cast<size_t>(stage_of(tokenizer.token_flags[token]))] = true;
  }
}

bool AddedTokens::may_start(char byte) const {
  const uint32_t value = byte_value(byte);
  return (first_bytes_[value / kBitsPerWord] >> value % kBitsPerWord & 1) != 0;
}

bool AddedTokens::is_allowed(uint32_t token, TextRange range) const {
  if ((tokenizer_.token_flags[token] & format::kTokenSpecial) == 0) return true;
  return std::all_of(plain_.begin(), plain_.end(), [range](const TextRange& plain) {
    return range.end <= plain.begin || range.begin >= plain.end;
  });
}

AddedMatch AddedTokens::find(const PrefixedText& text, size_t origin, size_t offset,
                             AddedStage stage) const {
  const AddedMatch nothing = {text.n_bytes, text.n_bytes, kNone};
  if (!stage_there_[static_cast<size_t>(stage)]) return nothing;
  for (size_t place = offset; place < text.n_bytes; ++place) {
    const AddedMatch match = match_at(text, origin, offset, place, stage);
    if (match.token != kNone) return match;
  }
  return nothing;
}

AddedMatch AddedTokens::match_at(const PrefixedText& text, size_t origin, size_t from,
                                 size_t offset, AddedStage stage) const {
  const bool folds_spaces =
      stage == AddedStage::kNormalized &&
      tokenizer_.header.kind == static_cast<uint32_t>(TokenizerKind::kSentencePieceBpe);
  const char byte = text.byte_at(offset);
  const char first = folds_spaces && byte == ' ' ? kSpaceMarkText[0] : byte;
  if (!may_start(first)) return {0, 0, kNone};
  const size_t prefix = text.has_prefix ? 1 : 0;
  const uint32_t* const end = tokenizer_.added_tokens + tokenizer_.header.n_added;
  const auto first_byte_less = [this](uint32_t token, char wanted) {
    return byte_value(token_text(tokenizer_, token)[0]) < byte_value(wanted);
  };
  const uint32_t* next = std::lower_bound(tokenizer_.added_tokens, end, first, first_byte_less);
  for (; next != end && token_text(tokenizer_, *next)[0] == first; ++next) {
    const uint8_t flags = tokenizer_.token_flags[*next];
    size_t match_end = offset;
    if (stage_of(flags) != stage ||
        !skip_bytes(text, token_text(tokenizer_, *next), folds_spaces, &match_end)) {
      continue;
    }
    // A match that starts in the prefix starts, for the ranges, with the text.
    const TextRange range = {origin + std::max(offset, prefix) - prefix,
                             origin + std::max(match_end, prefix) - prefix};
    if (!is_allowed(*next, range)) continue;
    size_t begin = offset;
    if ((flags & format::kTokenAfterSpace) != 0) {
      begin = space_mark_before(text, from, offset);
      if (begin == offset && needs_space_) continue;
    }
    if ((flags & format::kTokenStripLeft) != 0) begin = skip_spaces_left(text, from, begin);
    if ((flags & format::kTokenStripRight) != 0) match_end = skip_spaces_right(text, match_end);
    return {begin, match_end, *next};
  }
  return {0, 0, kNone};
}

}  // namespace cria
