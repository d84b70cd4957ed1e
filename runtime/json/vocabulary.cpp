#include "runtime/json/vocabulary.h"

#include <algorithm>

#include "quant/format/align.h"
#include "quant/text/utf8.h"
#include "runtime/base/arena.h"
#include "runtime/decode/model.h"
#include "runtime/json/text_part.h"

namespace cria::json {
namespace {

constexpr uint32_t kWordBits = 32;

// Characters of a plain token; 0 for others.
uint32_t plain_length(std::string_view bytes) {
  uint32_t n_characters = 0;
  for (size_t at = 0; at < bytes.size();) {
    const char c = bytes[at];
    if (c == '"' || c == '\\' || static_cast<uint8_t>(c) < 0x20) return 0;
    const Utf8Char character = decode_utf8(bytes.data() + at, bytes.size() - at);
    const bool is_replacement = part_of(bytes, at, kReplacementBytes) == kReplacementText;
    if (character.code == kReplacementCharacter && !is_replacement) return 0;
    if (character.code == 0x2028 || character.code == 0x2029) return 0;
    at += character.n_bytes;
    ++n_characters;
  }
  return n_characters;
}

bool is_text(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char character = decode_utf8(bytes.data() + at, bytes.size() - at);
    if (!character.complete || (character.code == kReplacementCharacter &&
                                part_of(bytes, at, kReplacementBytes) != kReplacementText)) {
      return false;
    }
    at += character.n_bytes;
  }
  return true;
}

struct VocabularySizes {
  uint32_t n_plain;
  uint32_t n_others;
  uint32_t n_text;
  uint32_t longest;
  bool has_bytes;  // a token for each byte that JSON needs
};

bool is_needed(uint32_t byte) {
  return (byte >= 0x20 && byte < 0x7f) || (byte >= 0x80 && byte < 0xc0) ||
         (byte >= 0xc2 && byte <= 0xf4);
}

VocabularySizes measure(const Tokenizer& tokenizer) {
  VocabularySizes sizes = {};
  uint32_t n_found = 0;
  bool found[kFirstBytes] = {};
  char bytes[kMostTokenBytes];
  for (uint32_t token = 0; token < tokenizer.header.n_tokens; ++token) {
    const uint32_t n = token_bytes(tokenizer, token, bytes);
    if (n == 0) continue;
    ++(plain_length({bytes, n}) > 0 ? sizes.n_plain : sizes.n_others);
    sizes.n_text += n;
    sizes.longest = std::max(sizes.longest, n);
    bool& is_found = found[static_cast<uint8_t>(bytes[0])];
    if (n == 1 && !is_found) {
      is_found = true;
      if (is_needed(static_cast<uint8_t>(bytes[0]))) ++n_found;
    }
  }
  uint32_t n_needed = 0;
  for (uint32_t byte = 0; byte < kFirstBytes; ++byte) n_needed += is_needed(byte) ? 1 : 0;
  sizes.has_bytes = n_found == n_needed;
  return sizes;
}

uint32_t bit_words(const cria_model& model) {
  return (model.scalars().vocab_size + kWordBits - 1) / kWordBits;
}

uint64_t bytes_of(const cria_model& model, const VocabularySizes& sizes) {
  return aligned(sizeof(cria_json_vocabulary)) +
         aligned(uint64_t{sizes.n_plain} * sizeof(TokenEntry)) +
         aligned(uint64_t{sizes.n_others} * sizeof(TokenEntry)) + aligned(sizes.n_text) +
         aligned(uint64_t{bit_words(model)} * sizeof(uint32_t));
}

std::string_view text_of(const cria_json_vocabulary& v, const TokenEntry& e) {
  return {v.text + e.offset, e.n_bytes};
}

void sort_group(const cria_json_vocabulary& v, uint32_t n, TokenGroup* group) {
  std::sort(group->entries, group->entries + n, [&](const TokenEntry& a, const TokenEntry& b) {
    const int order = text_of(v, a).compare(text_of(v, b));
    return order < 0 || (order == 0 && a.token < b.token);
  });
  uint32_t i = 0;
  for (uint32_t byte = 0; byte <= kFirstBytes; ++byte) {
    while (i < n && static_cast<uint8_t>(text_of(v, group->entries[i])[0]) < byte) ++i;
    group->first[byte] = i;
  }
  for (uint32_t k = 1; k < n; ++k) {
    const std::string_view a = text_of(v, group->entries[k - 1]);
    const std::string_view b = text_of(v, group->entries[k]);
    const size_t most = std::min(a.size(), b.size());
    const auto parts =
        std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most), b.begin());
    group->entries[k].n_shared = static_cast<uint8_t>(parts.first - a.begin());
  }
}

Status make_vocabulary(std::span<uint8_t> memory, const cria_model& model,
                       cria_json_vocabulary** vocabulary) {
  if (!model.has_tokenizer) return Status::kNoTokenizer;
  const VocabularySizes sizes = measure(model.tokenizer);
  if (!sizes.has_bytes) return Status::kUnsupported;
  Arena arena(memory.data(), memory.size());
  cria_json_vocabulary* v = nullptr;
  char* text = nullptr;
  CRIA_TRY(take(&arena, sizeof *v, &v));
  *v = {};
  CRIA_TRY(take(&arena, uint64_t{sizes.n_plain} * sizeof(TokenEntry), &v->plain.entries));
  CRIA_TRY(take(&arena, uint64_t{sizes.n_others} * sizeof(TokenEntry), &v->others.entries));
  CRIA_TRY(take(&arena, sizes.n_text, &text));
  v->n_words = bit_words(model);
  CRIA_TRY(take(&arena, uint64_t{v->n_words} * sizeof(uint32_t), &v->plain_bits));
  std::fill(v->plain_bits, v->plain_bits + v->n_words, 0);
  v->model = &model;
  v->text = text;
  v->longest = sizes.longest;
  char bytes[kMostTokenBytes];
  uint32_t n_plain = 0;
  uint32_t n_others = 0;
  uint32_t n_text = 0;
  for (uint32_t token = 0; token < model.tokenizer.header.n_tokens; ++token) {
    const uint32_t n = token_bytes(model.tokenizer, token, bytes);
    if (n == 0) continue;
    const uint32_t n_characters = plain_length({bytes, n});
    TokenEntry* const e =
        n_characters > 0 ? &v->plain.entries[n_plain++] : &v->others.entries[n_others++];
    *e = {token, n_text, static_cast<uint8_t>(n), 0, static_cast<uint8_t>(n_characters), 0};
    if (n_characters > 0) v->plain_bits[token / kWordBits] |= uint32_t{1} << (token % kWordBits);
    std::copy(bytes, bytes + n, text + n_text);
    n_text += n;
  }
  sort_group(*v, n_plain, &v->plain);
  sort_group(*v, n_others, &v->others);
  *vocabulary = v;
  return Status::kOk;
}

}  // namespace

uint32_t token_bytes(const Tokenizer& tokenizer, uint32_t token,
                     std::span<char, kMostTokenBytes> bytes) {
  if (token >= tokenizer.header.n_tokens) return 0;
  const uint8_t flags = tokenizer.token_flags[token];
  if ((flags & format::kTokenSpecial) != 0) return 0;
  const bool marks_spaces =
      tokenizer.header.kind == static_cast<uint32_t>(format::TokenizerKind::kSentencePieceBpe);
  const std::span<const char> span = token_text(tokenizer, token);
  std::string_view text(span.data(), span.size());
  // Its decoder ends a character that bytes have begun where a piece begins.
  const bool is_byte = (flags & format::kTokenByte) != 0;
  if (text.empty() || (marks_spaces && !is_byte && !is_text(text))) return 0;
  uint32_t n = 0;
  if ((flags & format::kTokenAfterSpace) != 0) bytes[n++] = ' ';
  while (!text.empty()) {
    if (n == kMostTokenBytes) return 0;
    const bool is_space = marks_spaces && text.starts_with(kSpaceMarkText);
    bytes[n++] = is_space ? ' ' : text[0];
    text.remove_prefix(is_space ? kSpaceMarkBytes : 1);
  }
  return n;
}

const Tokenizer& tokenizer_of(const cria_json_vocabulary& vocabulary) {
  return vocabulary.model->tokenizer;
}

}  // namespace cria::json

using cria::to_public;

extern "C" {

cria_status cria_json_vocabulary_required(const cria_model* model, size_t* n_bytes) {
  if (model == nullptr || n_bytes == nullptr) return CRIA_INVALID_ARGUMENT;
  if (!model->has_tokenizer) return CRIA_NO_TOKENIZER;
  const cria::json::VocabularySizes sizes = cria::json::measure(model->tokenizer);
  if (!sizes.has_bytes) return CRIA_UNSUPPORTED;
  *n_bytes = static_cast<size_t>(cria::json::bytes_of(*model, sizes));
  return CRIA_OK;
}

cria_status cria_json_make_vocabulary(void* memory, size_t n_bytes, const cria_model* model,
                                      cria_json_vocabulary** vocabulary) {
  if (memory == nullptr || model == nullptr || vocabulary == nullptr) return CRIA_INVALID_ARGUMENT;
  *vocabulary = nullptr;
  if (!cria::is_aligned(memory)) return CRIA_MISALIGNED;
  return to_public(
      cria::json::make_vocabulary({static_cast<uint8_t*>(memory), n_bytes}, *model, vocabulary));
}

}  // extern "C"
