// Text to tokens: added tokens are cut out, what is between them becomes words, words are merged.
#include <algorithm>
#include <cstring>

#include "quant/text/nfc.h"
#include "runtime/text/bpe.h"
#include "runtime/text/pre_tokenizer.h"
#include "runtime/text/text_encoder.h"

namespace cria {
namespace {

using format::kNone;
using format::PreTokenizer;
using format::TokenizerKind;

// A text being encoded.
struct Encoder {
  const Tokenizer& tokenizer;
  const AddedTokens& added;
  const TextToEncode& input;
  std::span<uint8_t> workspace;
  TokenOutput* output;
  bool* ends_with_added;
  BpeWord* word;  // of the section being encoded
};

bool has_flag(const Encoder& e, uint32_t flag) { return (e.tokenizer.header.flags & flag) != 0; }

bool is_space_mark_at(const PrefixedText& text, size_t offset) {
  return offset < text.n_bytes && is_space_or_mark(text.char_at(offset).code);
}

// The token with exactly these bytes; kNone when there is none.
uint32_t find_token(const Tokenizer& t, std::span<const char> bytes) {
  const auto less = [&t](uint32_t token, std::span<const char> wanted) {
    const std::span<const char> text = token_text(t, token);
    const int order = std::memcmp(text.data(), wanted.data(), std::min(text.size(), wanted.size()));
    return order != 0 ? order < 0 : text.size() < wanted.size();
  };
  const uint32_t* const end = t.sorted_tokens + t.header.n_sorted;
  const uint32_t* const found = std::lower_bound(t.sorted_tokens, end, bytes, less);
  if (found == end) return kNone;
  const std::span<const char> text = token_text(t, *found);
  const bool equal =
      text.size() == bytes.size() && std::memcmp(text.data(), bytes.data(), bytes.size()) == 0;
  return equal ? *found : kNone;
}

// Adds the unknown token, or nothing where the tokenizer has none.
Status append_unknown(Encoder* e, bool* after_unknown) {
  const uint32_t unknown = e->tokenizer.header.unknown_token;
  if (unknown == kNone || (*after_unknown && has_flag(*e, format::kFuseUnknown))) {
    return Status::kOk;
  }
  *after_unknown = true;
  return e->word->append(unknown) ? Status::kOk : Status::kTextTooLong;
}

Status append_byte_symbols(Encoder* e, const PrefixedText& word) {
  bool after_unknown = false;
  for (size_t i = 0; i < word.n_bytes; ++i) {
    const uint32_t token = e->tokenizer.byte_tokens[static_cast<uint8_t>(word.byte_at(i))];
    if (token == kNone) {
      CRIA_TRY(append_unknown(e, &after_unknown));
      continue;
    }
    after_unknown = false;
    if (!e->word->append(token)) return Status::kTextTooLong;
  }
  return Status::kOk;
}

// Adds the byte tokens of a character; false when one of them is missing.
bool append_fallback(Encoder* e, std::span<const char> bytes, Status* status) {
  const auto token_of = [e](char byte) {
    return e->tokenizer.byte_tokens[static_cast<uint8_t>(byte)];
  };
  if (!has_flag(*e, format::kByteFallback) ||
      std::any_of(bytes.begin(), bytes.end(), [&](char b) { return token_of(b) == kNone; })) {
    return false;
  }
  for (const char byte : bytes) {
    if (!e->word->append(token_of(byte))) *status = Status::kTextTooLong;
  }
  return true;
}

Status append_character_symbols(Encoder* e, const PrefixedText& word) {
  bool after_unknown = false;
  for (size_t i = 0; i < word.n_bytes;) {
    const Utf8Char c = word.char_at(i);
    std::span<const char> bytes;
    if (c.code == ' ') {
      bytes = {kSpaceMarkText, kSpaceMarkBytes};
    } else if (c.code == kReplacementCharacter) {
      bytes = {kReplacementText, kReplacementBytes};
    } else {
      bytes = {word.data + (word.has_prefix ? i - 1 : i), c.n_bytes};
    }
    i += c.n_bytes;
    const uint32_t token = find_token(e->tokenizer, bytes);
    Status status = Status::kOk;
    if (token != kNone) {
      after_unknown = false;
      if (!e->word->append(token)) status = Status::kTextTooLong;
    } else if (append_fallback(e, bytes, &status)) {
      after_unknown = false;
    } else {
      status = append_unknown(e, &after_unknown);
    }
    CRIA_TRY(status);
  }
  return Status::kOk;
}

Status encode_word(Encoder* e, const PrefixedText& word) {
  const bool is_byte_level =
      e->tokenizer.header.kind == static_cast<uint32_t>(TokenizerKind::kByteLevelBpe);
  // A prefix is in no memory to be looked up; the merges find what a look-up would.
  if (is_byte_level && has_flag(*e, format::kIgnoreMerges) && !word.has_prefix) {
    const uint32_t token = find_token(e->tokenizer, {word.data, word.n_bytes});
    if (token != kNone) return e->output->put(token);
  }
  e->word->clear();
  CRIA_TRY(is_byte_level ? append_byte_symbols(e, word) : append_character_symbols(e, word));
  e->word->merge();
  for (uint32_t i = e->word->first(); i != kNone; i = e->word->next(i)) {
    CRIA_TRY(e->output->put(e->word->token(i)));
  }
  return Status::kOk;
}

// Whether the tokenizer's rules put a space before text that starts at this place of the input.
bool prepends_at(const Encoder& e, size_t origin) {
  if (origin == 0 && e.input.start == TextStart::kText) return false;
  const bool follows_added = origin > 0 || e.input.start == TextStart::kAddedToken;
  return !follows_added || !has_flag(e, format::kPrependOnlyFirst);
}

Status put_added(Encoder* e, uint32_t token) {
  *e->ends_with_added = true;
  return e->output->put(token);
}

Status encode_stage_words(Encoder* e, const PrefixedText& text) {
  StageCutter cutter(e->tokenizer.pre_tokenizer, text);
  for (size_t begin = 0; begin < text.n_bytes;) {
    const size_t end = cutter.word_end(begin);
    if (end == 0) return Status::kInvalidModel;
    CRIA_TRY(encode_word(e, text.part(begin, end)));
    begin = end;
  }
  return Status::kOk;
}

// Encodes text without added tokens. origin: where it starts in the input.
Status encode_words(Encoder* e, PrefixedText text, size_t origin) {
  if (text.n_bytes == 0) return Status::kOk;
  *e->ends_with_added = false;
  const bool byte_level_prefix = has_flag(*e, format::kAddPrefixSpace) && text.byte_at(0) != ' ';
  const bool metaspace_prefix = has_flag(*e, format::kPrependSpace) &&
                                has_flag(*e, format::kPrependUnlessSpace) &&
                                !is_space_mark_at(text, 0);
  if (!text.has_prefix && (byte_level_prefix || metaspace_prefix) && prepends_at(*e, origin)) {
    text = {text.data, text.n_bytes + 1, true};
  }
  const auto pre_tokenizer = static_cast<PreTokenizer>(e->tokenizer.header.pre_tokenizer);
  if (pre_tokenizer == PreTokenizer::kStages) return encode_stage_words(e, text);
  for (size_t begin = 0; begin < text.n_bytes;) {
    const size_t end = word_end(pre_tokenizer, text, begin);
    CRIA_TRY(encode_word(e, text.part(begin, end)));
    begin = end;
  }
  return Status::kOk;
}

// Text without tokens of the first stage, normalized.
struct Section {
  std::span<const char> text;
  size_t origin;                     // where it starts in the input
  std::span<const TextRange> plain;  // counted from there, too
  std::span<uint8_t> workspace;
};

Status encode_section(Encoder* e, const Section& section) {
  BpeWord word(e->tokenizer, section.workspace);
  e->word = &word;
  const bool has_prefix = has_flag(*e, format::kPrependSpace) &&
                          !has_flag(*e, format::kPrependUnlessSpace) &&
                          prepends_at(*e, section.origin);
  const size_t prefix = has_prefix ? 1 : 0;
  const PrefixedText text = {section.text.data(), section.text.size() + prefix, has_prefix};
  const AddedSearch search = {text, AddedStage::kNormalized, section.origin, section.plain,
                              e->input.special_needs_space};
  for (size_t place = 0; place < text.n_bytes;) {
    const AddedMatch match = e->added.find(search, place);
    CRIA_TRY(encode_words(e, text.part(place, match.begin),
                          section.origin + std::max(place, prefix) - prefix));
    if (match.token != kNone) CRIA_TRY(put_added(e, match.token));
    place = match.end;
  }
  return Status::kOk;
}

// Memory handed out from the front of a workspace.
template <typename T>
std::span<T> take(std::span<uint8_t>* workspace, size_t count) {
  const size_t misfit = reinterpret_cast<uintptr_t>(workspace->data()) % alignof(T);
  const size_t padding = misfit == 0 ? 0 : alignof(T) - misfit;
  if (padding > workspace->size() || (workspace->size() - padding) / sizeof(T) < count) return {};
  auto* const begin = reinterpret_cast<T*>(workspace->data() + padding);
  *workspace = workspace->subspan(padding + count * sizeof(T));
  return {begin, count};
}

// Puts the section's text into the workspace, normalized, and its ranges beside it.
[[maybe_unused]] Status normalize_section(const Encoder& e, Section* section) {
  // Ranges matter where special tokens are looked for in such text.
  const bool has_ranges = e.tokenizer.added_stage_there[1];
  const std::span<const TextRange> plain =
      e.input.plain.first(has_ranges ? e.input.plain.size() : 0);
  const std::span<TextRange> ranges = take<TextRange>(&section->workspace, plain.size());
  if (ranges.size() < plain.size()) return Status::kTextTooLong;
  std::fill(ranges.begin(), ranges.end(), TextRange{0, 0});
  const std::span<char> out = {reinterpret_cast<char*>(section->workspace.data()),
                               section->workspace.size()};
  size_t n_read = 0;
  size_t n_written = 0;
  while (n_read < section->text.size()) {
    const NfcSegment segment =
        normalize_segment(section->text.subspan(n_read), out.subspan(n_written));
    if (segment.n_written > out.size() - n_written) return Status::kTextTooLong;
    const TextRange source = {section->origin + n_read, section->origin + n_read + segment.n_read};
    const TextRange made = {section->origin + n_written,
                            section->origin + n_written + segment.n_written};
    // What is made of plain text, even in part, is plain.
    for (size_t i = 0; i < plain.size(); ++i) {
      if (plain[i].begin >= source.end || plain[i].end <= source.begin) continue;
      if (ranges[i].end == 0) ranges[i].begin = made.begin;
      ranges[i].end = made.end;
    }
    n_read += segment.n_read;
    n_written += segment.n_written;
  }
  (void)take<char>(&section->workspace, n_written);
  (void)take<uint32_t>(&section->workspace, 0);
  section->text = out.first(n_written);
  section->plain = ranges;
  return Status::kOk;
}

// Encodes text [begin, end) of the input, which has no tokens of the first stage.
Status encode_between(Encoder* e, size_t begin, size_t end) {
  if (begin == end) return Status::kOk;
  Section section = {e->input.text.subspan(begin, end - begin), begin, e->input.plain,
                     e->workspace};
  if constexpr (kHasNfc) {
    if (has_flag(*e, format::kNfc) && !is_surely_nfc(section.text)) {
      CRIA_TRY(normalize_section(*e, &section));
    }
  }
  return encode_section(e, section);
}

}  // namespace

Status encode_text(const Tokenizer& tokenizer, const AddedTokens& added, const TextToEncode& input,
                   std::span<uint8_t> workspace, TokenOutput* output, bool* ends_with_added) {
  Encoder e = {tokenizer, added, input, workspace, output, ends_with_added, nullptr};
  const PrefixedText text = {input.text.data(), input.text.size(), false};
  const AddedSearch search = {text, AddedStage::kRaw, 0, input.plain, input.special_needs_space};
  for (size_t place = 0; place < text.n_bytes;) {
    const AddedMatch match = e.added.find(search, place);
    CRIA_TRY(encode_between(&e, place, match.begin));
    if (match.token != kNone) CRIA_TRY(put_added(&e, match.token));
    place = match.end;
  }
  return Status::kOk;
}

Status tokenizer_encode(const Tokenizer& tokenizer, std::span<const char> text,
                        const EncodeOptions& options, std::span<uint8_t> workspace,
                        std::span<uint32_t> tokens, size_t* n_tokens) {
  TokenOutput output = {tokens, 0, false};
  if (options.add_special && (tokenizer.header.flags & format::kAddBos) != 0) {
    CRIA_TRY(output.put(tokenizer.header.bos_token));
  }
  const TextRange everything = {0, text.size()};
  const std::span<const TextRange> plain(&everything, options.parse_special ? 0 : 1);
  const TextStart start = options.continues ? TextStart::kText : TextStart::kNothing;
  bool ends_with_added = false;
  CRIA_TRY(encode_text(tokenizer, AddedTokens(tokenizer), {text, plain, true, start}, workspace,
                       &output, &ends_with_added));
  if (options.add_special && (tokenizer.header.flags & format::kAddEos) != 0) {
    CRIA_TRY(output.put(tokenizer.header.eos_token));
  }
  *n_tokens = output.n_tokens;
  return Status::kOk;
}

}  // namespace cria
