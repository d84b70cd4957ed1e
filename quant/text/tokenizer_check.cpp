#include "quant/text/tokenizer_check.h"

#include <algorithm>
#include <cstring>

#include "quant/format/all_zero.h"
#include "quant/format/reason.h"

namespace cria {
namespace {

using format::kNone;
using format::MergeEntry;
using format::PreTokenizer;
using format::TokenizerHeader;
using format::TokenizerKind;

constexpr size_t kByteValues = 256;

bool kind_fits(const TokenizerHeader& header) {
  const auto pre_tokenizer = static_cast<PreTokenizer>(header.pre_tokenizer);
  switch (static_cast<TokenizerKind>(header.kind)) {
    case TokenizerKind::kByteLevelBpe:
      return pre_tokenizer == PreTokenizer::kWhole || pre_tokenizer == PreTokenizer::kStages;
    case TokenizerKind::kSentencePieceBpe:
      return pre_tokenizer == PreTokenizer::kWhole || pre_tokenizer == PreTokenizer::kSpaceRuns ||
             pre_tokenizer == PreTokenizer::kMetaspace;
  }
  return false;
}

const char* check_counts(const TokenizerHeader& header, uint32_t vocab_size) {
  if (header.n_tokens == 0) return "it has no tokens"_reason;
  if (header.n_tokens > vocab_size || header.n_tokens > format::kMaxVocab) {
    return "it has more tokens than the model"_reason;
  }
  if (header.n_merges > format::kMaxMerges) return "it has too many merges"_reason;
  if (header.text_bytes > format::kMaxTokenTextBytes) return "its tokens have too much text"_reason;
  if (header.longest_token > format::kMaxTokenBytes) return "a token's text is too long"_reason;
  if (header.n_sorted > header.n_tokens || header.n_added > header.n_tokens) {
    return "a table has more entries than there are tokens"_reason;
  }
  return nullptr;
}

const char* check_header(const TokenizerHeader& header, uint32_t vocab_size) {
  if (!kind_fits(header)) return "its kind or pre-tokenizer is unknown"_reason;
  if ((header.flags & ~format::kKnownTokenizerFlags) != 0) return "it has unknown flags"_reason;
  if ((header.flags & format::kNfc) != 0 &&
      header.kind != static_cast<uint32_t>(TokenizerKind::kByteLevelBpe)) {
    return "only byte-level BPE is normalized"_reason;
  }
  const bool has_stages = header.pre_tokenizer == static_cast<uint32_t>(PreTokenizer::kStages);
  if (!has_stages && header.pre_tokenizer_bytes != 0)
    return "it has tables that it does not use"_reason;
  if (const char* wrong = check_counts(header, vocab_size)) return wrong;
  for (const uint32_t token : {header.bos_token, header.eos_token, header.unknown_token}) {
    if (token != kNone && token >= header.n_tokens) return "BOS, EOS or UNK is not a token"_reason;
  }
  if (((header.flags & format::kAddBos) != 0 && header.bos_token == kNone) ||
      ((header.flags & format::kAddEos) != 0 && header.eos_token == kNone)) {
    return "BOS or EOS is to be added, and there is none"_reason;
  }
  return all_zero(header.reserved) ? nullptr : "reserved bytes are not zero"_reason;
}

// Hands out the arrays of the section in order. The counts are limited, so no sum overflows.
class Cursor {
 public:
  explicit Cursor(std::span<const uint8_t> section) : section_(section) {}

  template <typename T>
  const T* take(size_t count) {
    const size_t aligned = (offset_ + sizeof(uint32_t) - 1) / sizeof(uint32_t) * sizeof(uint32_t);
    const size_t n_bytes = count * sizeof(T);
    if (failed_ || aligned > section_.size() || section_.size() - aligned < n_bytes) {
      failed_ = true;
      return nullptr;
    }
    for (; offset_ < aligned; ++offset_) padding_ |= section_[offset_];
    offset_ += n_bytes;
    return reinterpret_cast<const T*>(section_.data() + aligned);
  }
  [[nodiscard]] bool used_exactly() const {
    return !failed_ && padding_ == 0 && offset_ == section_.size();
  }

 private:
  std::span<const uint8_t> section_;
  size_t offset_ = 0;
  uint8_t padding_ = 0;
  bool failed_ = false;
};

int compare(std::span<const char> a, std::span<const char> b) {
  const size_t common = std::min(a.size(), b.size());
  const int order = common == 0 ? 0 : std::memcmp(a.data(), b.data(), common);
  if (order != 0) return order;
  return a.size() == b.size() ? 0 : (a.size() < b.size() ? -1 : 1);
}

const char* check_texts(const Tokenizer& t) {
  uint32_t begin = 0;
  uint32_t longest = 0;
  for (uint32_t i = 0; i < t.header.n_tokens; ++i) {
    const uint32_t end = t.token_ends[i];
    if (end < begin || end > t.header.text_bytes) return "the texts of tokens overlap"_reason;
    longest = std::max(longest, end - begin);
    begin = end;
    if ((t.token_flags[i] & ~format::kKnownTokenFlags) != 0)
      return "a token has unknown flags"_reason;
  }
  if (begin != t.header.text_bytes) return "there is text that no token has"_reason;
  return longest == t.header.longest_token ? nullptr
                                           : "the length of the longest token is wrong"_reason;
}

// Text may become this token without being a special token written out.
bool is_plain(const Tokenizer& t, uint32_t token) {
  return token < t.header.n_tokens && !is_special(t, token);
}

const char* check_sorted(const Tokenizer& t) {
  for (uint32_t i = 0; i < t.header.n_sorted; ++i) {
    const uint32_t token = t.sorted_tokens[i];
    if (!is_plain(t, token)) return "a sorted token is special or none"_reason;
    if (token_text(t, token).empty()) return "a sorted token has no text"_reason;
    if (i > 0 && compare(token_text(t, t.sorted_tokens[i - 1]), token_text(t, token)) >= 0) {
      return "sorted tokens are out of order, or two have the same text"_reason;
    }
  }
  return nullptr;
}

bool is_concatenation(const Tokenizer& t, uint32_t whole, uint32_t left, uint32_t right) {
  const std::span<const char> text = token_text(t, whole);
  const std::span<const char> a = token_text(t, left);
  const std::span<const char> b = token_text(t, right);
  return text.size() == a.size() + b.size() && compare(text.first(a.size()), a) == 0 &&
         compare(text.subspan(a.size()), b) == 0;
}

const char* check_merges(const Tokenizer& t) {
  uint32_t begin = 0;
  for (uint32_t left = 0; left < t.header.n_tokens; ++left) {
    const uint32_t end = t.merge_ends[left];
    if (end < begin || end > t.header.n_merges) return "the merges of tokens overlap"_reason;
    for (uint32_t i = begin; i < end; ++i) {
      const MergeEntry& merge = t.merges[i];
      if (merge.right >= t.header.n_tokens) return "a merge takes an unknown token"_reason;
      if (!is_plain(t, merge.result)) return "a merge gives a special token or none"_reason;
      if (!is_concatenation(t, merge.result, left, merge.right)) {
        return "a merge gives another text than its parts have"_reason;
      }
      if (i > begin && t.merges[i - 1].right >= merge.right)
        return "merges are out of order"_reason;
    }
    begin = end;
  }
  return begin == t.header.n_merges ? nullptr : "there are merges that no token has"_reason;
}

const char* check_bytes(const Tokenizer& t) {
  for (size_t byte = 0; byte < kByteValues; ++byte) {
    const uint32_t token = t.byte_tokens[byte];
    if (token == kNone) continue;
    if (!is_plain(t, token)) return "the token of a byte is special or none"_reason;
    const std::span<const char> text = token_text(t, token);
    if (text.size() != 1 || static_cast<uint8_t>(text[0]) != byte) {
      return "the token of a byte has another text"_reason;
    }
  }
  return nullptr;
}

// Order, and what a search at one place of a text may cost (quant/text/added_tokens.h).
const char* check_added(const Tokenizer& t) {
  size_t lengths = 0;
  std::span<const char> before;
  for (uint32_t i = 0; i < t.header.n_added; ++i) {
    const uint32_t token = t.added_tokens[i];
    if (token >= t.header.n_tokens || (t.token_flags[token] & format::kTokenAdded) == 0) {
      return "an added token is none or lacks its flag"_reason;
    }
    const std::span<const char> text = token_text(t, token);
    if (text.empty()) return "an added token has no text"_reason;
    const int first_bytes = i == 0 ? -1 : compare(before.first(1), text.first(1));
    const bool is_shorter = before.size() > text.size();
    const bool is_same_size = before.size() == text.size();
    if (first_bytes == 0 && is_same_size && compare(before, text) == 0) {
      return "two added tokens have the same text"_reason;
    }
    if (first_bytes > 0 ||
        (first_bytes == 0 && !is_shorter && !(is_same_size && compare(before, text) < 0))) {
      return "added tokens are out of order"_reason;
    }
    if (first_bytes != 0) lengths = 0;
    if (first_bytes != 0 || is_shorter) lengths += text.size();
    if (lengths > format::kMaxAddedLengths) {
      return "added tokens that start with the same byte have too many lengths"_reason;
    }
    before = text;
  }
  return nullptr;
}

void sum_up_added(Tokenizer* t) {
  for (uint32_t i = 0; i < t->header.n_added; ++i) {
    const uint32_t token = t->added_tokens[i];
    t->added_first_bytes.add(static_cast<uint8_t>(token_text(*t, token)[0]));
    const bool is_normalized = (t->token_flags[token] & format::kTokenNormalized) != 0;
    t->added_stage_there[is_normalized ? 1 : 0] = true;
  }
}

}  // namespace

const char* check_tokenizer(std::span<const uint8_t> section, uint32_t vocab_size,
                            Tokenizer* tokenizer) {
  if (section.size() < sizeof(TokenizerHeader)) return "its section is too short"_reason;
  Tokenizer t = {};
  std::memcpy(&t.header, section.data(), sizeof(t.header));
  if (const char* wrong = check_header(t.header, vocab_size)) return wrong;
  Cursor cursor(section.subspan(sizeof(t.header)));
  t.token_ends = cursor.take<uint32_t>(t.header.n_tokens);
  t.token_flags = cursor.take<uint8_t>(t.header.n_tokens);
  t.sorted_tokens = cursor.take<uint32_t>(t.header.n_sorted);
  t.merge_ends = cursor.take<uint32_t>(t.header.n_tokens);
  t.merges = cursor.take<MergeEntry>(t.header.n_merges);
  t.byte_tokens = cursor.take<uint32_t>(kByteValues);
  t.added_tokens = cursor.take<uint32_t>(t.header.n_added);
  t.text = cursor.take<char>(t.header.text_bytes);
  const uint32_t table_bytes = t.header.pre_tokenizer_bytes;
  // One that is not there takes no alignment either.
  const uint8_t* const tables = table_bytes == 0 ? nullptr : cursor.take<uint8_t>(table_bytes);
  if (!cursor.used_exactly()) return "its tables do not fill its section"_reason;
  // Texts first: the other checks read them.
  for (const auto check : {check_texts, check_sorted, check_merges, check_bytes, check_added}) {
    if (const char* wrong = check(t)) return wrong;
  }
  if (t.header.pre_tokenizer == static_cast<uint32_t>(PreTokenizer::kStages)) {
    if (const char* wrong = check_pre_tokenizer({tables, table_bytes}, &t.pre_tokenizer)) {
      return wrong;
    }
  }
  sum_up_added(&t);
  *tokenizer = t;
  return nullptr;
}

}  // namespace cria
