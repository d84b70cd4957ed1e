#include "quant/text/added_tokens.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>

#include "quant/text/unicode.h"

namespace cria {
namespace {

using format::kNone;
using format::TokenizerKind;

uint32_t byte_value(char byte) { return static_cast<uint8_t>(byte); }

AddedStage stage_of(uint8_t flags) {
  return (flags & format::kTokenNormalized) != 0 ? AddedStage::kNormalized : AddedStage::kRaw;
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
      if (c.n_bytes == n && is_white_space(c.code)) begin = offset - n;
    }
    if (begin == offset) break;
    offset = begin;
  }
  return offset;
}

size_t skip_spaces_right(const PrefixedText& text, size_t offset) {
  while (offset < text.n_bytes) {
    const Utf8Char c = text.char_at(offset);
    if (!is_white_space(c.code)) break;
    offset += c.n_bytes;
  }
  return offset;
}

// How many of the first n bytes of two texts agree.
size_t common_bytes(const char* a, const char* b, size_t n) {
  size_t i = 0;
  for (; n - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
    uint64_t x;
    uint64_t y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    if (x != y) return i + static_cast<size_t>(std::countr_zero(x ^ y)) / CHAR_BIT;
  }
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

AddedTokens::AddedTokens(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      folds_spaces_(tokenizer.header.kind ==
                    static_cast<uint32_t>(TokenizerKind::kSentencePieceBpe)) {}

bool AddedTokens::may_start(char byte) const {
  return tokenizer_.added_first_bytes.has(static_cast<uint8_t>(byte));
}

AddedTokens::Tokens AddedTokens::starting_with(char byte) const {
  const Tokens all = {tokenizer_.added_tokens, tokenizer_.header.n_added};
  const auto value = [this](uint32_t token) {
    return byte_value(token_text(tokenizer_, token)[0]);
  };
  const uint32_t wanted = byte_value(byte);
  const auto begin = std::partition_point(all.begin(), all.end(),
                                          [&](uint32_t token) { return value(token) < wanted; });
  const auto end = std::partition_point(begin, all.end(),
                                        [&](uint32_t token) { return value(token) == wanted; });
  return {begin, end};
}

AddedMatch AddedTokens::find(const AddedSearch& search, size_t offset) const {
  const AddedMatch nothing = {search.text.n_bytes, search.text.n_bytes, kNone};
  if (!tokenizer_.added_stage_there[static_cast<size_t>(search.stage)]) return nothing;
  for (size_t place = offset; place < search.text.n_bytes; ++place) {
    const AddedMatch match = match_at(search, offset, place);
    if (match.token != kNone) return match;
  }
  return nothing;
}

AddedMatch AddedTokens::match_at(const AddedSearch& search, size_t from, size_t offset) const {
  const char byte = search.text.byte_at(offset);
  const char first = byte == ' ' && folds(search) ? kSpaceMarkText[0] : byte;
  if (!may_start(first)) return {0, 0, kNone};
  // Longest first; tokens of one length are in the order of their bytes.
  for (Tokens rest = starting_with(first); !rest.empty();) {
    const size_t length = token_text(tokenizer_, rest.front()).size();
    const auto end = std::partition_point(rest.begin(), rest.end(), [&](uint32_t token) {
      return token_text(tokenizer_, token).size() == length;
    });
    size_t match_end = 0;
    const uint32_t token = find_text({rest.begin(), end}, search, offset, &match_end);
    if (token != kNone) {
      const AddedMatch match = take(search, from, offset, match_end, token);
      if (match.token != kNone) return match;
    }
    rest = {end, rest.end()};
  }
  return {0, 0, kNone};
}

// The text's byte there, a space as a byte of U+2581 where spaces are folded.
char AddedTokens::byte_at(const AddedSearch& search, const Agreement& a) const {
  const char byte = search.text.byte_at(a.place);
  return byte == ' ' && folds(search) ? kSpaceMarkText[a.n_of_mark] : byte;
}

// How much further the token agrees with the text.
AddedTokens::Agreement AddedTokens::extend(const AddedSearch& search, uint32_t token,
                                           Agreement a) const {
  const std::span<const char> text = token_text(tokenizer_, token);
  if (!folds(search) && !search.text.has_prefix) {
    const size_t most = std::min(text.size() - a.depth, search.text.n_bytes - a.place);
    const size_t n = common_bytes(&text[a.depth], search.text.data + a.place, most);
    return {a.depth + n, a.place + n, 0};
  }
  while (a.depth < text.size() && a.place < search.text.n_bytes) {
    const bool is_mark = search.text.byte_at(a.place) == ' ' && folds(search);
    if (is_mark && a.n_of_mark == 0 && text.size() - a.depth >= kSpaceMarkBytes &&
        std::memcmp(&text[a.depth], kSpaceMarkText, kSpaceMarkBytes) == 0) {
      a.depth += kSpaceMarkBytes;
      ++a.place;
      continue;
    }
    if (text[a.depth] != byte_at(search, a)) break;
    ++a.depth;
    a.n_of_mark = is_mark ? (a.n_of_mark + 1) % kSpaceMarkBytes : 0;
    if (a.n_of_mark == 0) ++a.place;
  }
  return a;
}

// Which of these tokens, all of one length and in the order of their bytes, the text has at offset;
// kNone when it has none.
uint32_t AddedTokens::find_text(Tokens tokens, const AddedSearch& search, size_t offset,
                                size_t* match_end) const {
  const size_t length = token_text(tokenizer_, tokens.front()).size();
  // How far a token before those left, and one after them, agree with the text. What is between
  // them agrees as far as both: so the first and the last are looked at first.
  const Agreement nothing = {0, offset, 0};
  Agreement low = nothing;
  Agreement high = nothing;
  for (size_t step = 0; !tokens.empty(); ++step) {
    const size_t middle = step == 0 ? 0 : step == 1 ? tokens.size() - 1 : tokens.size() / 2;
    const uint32_t token = tokens[middle];
    const Agreement& shared = low.depth < high.depth ? low : high;
    const Agreement reached = extend(search, token, step < 2 ? nothing : shared);
    if (reached.depth == length) {
      *match_end = reached.place;
      return reached.n_of_mark > 0 ? kNone : token;
    }
    // Of a text that ends here the token is a continuation, and comes after it.
    const bool is_before = reached.place < search.text.n_bytes &&
                           byte_value(token_text(tokenizer_, token)[reached.depth]) <
                               byte_value(byte_at(search, reached));
    (is_before ? low : high) = reached;
    tokens = is_before ? tokens.subspan(middle + 1) : tokens.first(middle);
  }
  return kNone;
}

// The match of a token whose text stands at offset, unless it is not to be found there.
AddedMatch AddedTokens::take(const AddedSearch& search, size_t from, size_t offset,
                             size_t match_end, uint32_t token) const {
  const AddedMatch nothing = {0, 0, kNone};
  const uint8_t flags = tokenizer_.token_flags[token];
  if (stage_of(flags) != search.stage) return nothing;
  if ((flags & format::kTokenSpecial) != 0) {
    // A prefix is part of the text's first byte: where that is plain, so is the prefix.
    const size_t prefix = search.text.has_prefix ? 1 : 0;
    const size_t first = search.origin + std::max(offset, prefix) - prefix;
    const size_t last = search.origin + std::max(match_end, 2 * prefix) - prefix;
    for (const TextRange& plain : search.plain) {
      if (last > plain.begin && first < plain.end) return nothing;
    }
  }
  size_t begin = offset;
  if ((flags & format::kTokenAfterSpace) != 0) {
    begin = space_mark_before(search.text, from, offset);
    if (begin == offset && search.needs_space) return nothing;
  }
  if ((flags & format::kTokenStripLeft) != 0) begin = skip_spaces_left(search.text, from, begin);
  if ((flags & format::kTokenStripRight) != 0)
    match_end = skip_spaces_right(search.text, match_end);
  return {begin, match_end, token};
}

}  // namespace cria
