// Checks a tokenizer section, so that nothing that uses it has to.
#include <algorithm>
#include <cstring>

#include "runtime/tokenizer.h"

namespace cria {
namespace {

using format::kNone;
using format::MergeEntry;
using format::PreTokenizer;
using format::TokenizerHeader;
using format::TokenizerKind;

constexpr size_t kByteValues = 256;

bool is_token_or_none(uint32_t token, const TokenizerHeader& header) {
  return token == kNone || token < header.n_tokens;
}

bool kind_fits(const TokenizerHeader& header) {
  const auto pre_tokenizer = static_cast<PreTokenizer>(header.pre_tokenizer);
  switch (static_cast<TokenizerKind>(header.kind)) {
    case TokenizerKind::kByteLevelBpe:
      return pre_tokenizer <= PreTokenizer::kQwen2;
    case TokenizerKind::kSentencePieceBpe:
      return pre_tokenizer == PreTokenizer::kWhole || pre_tokenizer == PreTokenizer::kSpaceRuns ||
             pre_tokenizer == PreTokenizer::kMetaspace;
  }
  return false;
}

bool header_holds(const TokenizerHeader& header, uint32_t vocab_size) {
  const auto is_zero = [](uint8_t byte) { return byte == 0; };
  const bool bos_there = (header.flags & format::kAddBos) == 0 || header.bos_token != kNone;
  const bool eos_there = (header.flags & format::kAddEos) == 0 || header.eos_token != kNone;
  return kind_fits(header) && (header.flags & ~format::kKnownTokenizerFlags) == 0 &&
         header.n_tokens > 0 && header.n_tokens <= vocab_size &&
         header.n_tokens <= format::kMaxVocab && header.n_sorted <= header.n_tokens &&
         header.n_merges <= format::kMaxMerges && header.n_added <= header.n_tokens &&
         header.text_bytes <= format::kMaxTokenTextBytes &&
         header.longest_token <= format::kMaxTokenBytes &&
         is_token_or_none(header.bos_token, header) && is_token_or_none(header.eos_token, header) &&
         is_token_or_none(header.unknown_token, header) && bos_there && eos_there &&
         std::all_of(std::begin(header.reserved), std::end(header.reserved), is_zero);
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

bool texts_hold(const Tokenizer& t) {
  uint32_t begin = 0;
  uint32_t longest = 0;
  for (uint32_t i = 0; i < t.header.n_tokens; ++i) {
    const uint32_t end = t.token_ends[i];
    if (end < begin || end > t.header.text_bytes) return false;
    longest = std::max(longest, end - begin);
    begin = end;
    if ((t.token_flags[i] & ~format::kKnownTokenFlags) != 0) return false;
  }
  return begin == t.header.text_bytes && longest == t.header.longest_token;
}

// Text may become this token without being a special token written out.
bool is_plain(const Tokenizer& t, uint32_t token) {
  return token < t.header.n_tokens && (t.token_flags[token] & format::kTokenSpecial) == 0;
}

bool sorted_hold(const Tokenizer& t) {
  for (uint32_t i = 0; i < t.header.n_sorted; ++i) {
    const uint32_t token = t.sorted_tokens[i];
    if (!is_plain(t, token) || token_text(t, token).empty()) return false;
    if (i > 0 && compare(token_text(t, t.sorted_tokens[i - 1]), token_text(t, token)) >= 0) {
      return false;
    }
  }
  return true;
}

bool is_concatenation(const Tokenizer& t, uint32_t whole, uint32_t left, uint32_t right) {
  const std::span<const char> text = token_text(t, whole);
  const std::span<const char> a = token_text(t, left);
  const std::span<const char> b = token_text(t, right);
  return text.size() == a.size() + b.size() && compare(text.first(a.size()), a) == 0 &&
         compare(text.subspan(a.size()), b) == 0;
}

bool merges_hold(const Tokenizer& t) {
  uint32_t begin = 0;
  for (uint32_t left = 0; left < t.header.n_tokens; ++left) {
    const uint32_t end = t.merge_ends[left];
    if (end < begin || end > t.header.n_merges) return false;
    for (uint32_t i = begin; i < end; ++i) {
      const MergeEntry& merge = t.merges[i];
      if (merge.right >= t.header.n_tokens || !is_plain(t, merge.result) ||
          !is_concatenation(t, merge.result, left, merge.right)) {
        return false;
      }
      if (i > begin && t.merges[i - 1].right >= merge.right) return false;
    }
    begin = end;
  }
  return begin == t.header.n_merges;
}

bool bytes_hold(const Tokenizer& t) {
  for (size_t byte = 0; byte < kByteValues; ++byte) {
    const uint32_t token = t.byte_tokens[byte];
    if (token == kNone) continue;
    if (!is_plain(t, token)) return false;
    const std::span<const char> text = token_text(t, token);
    if (text.size() != 1 || static_cast<uint8_t>(text[0]) != byte) return false;
  }
  return true;
}

bool added_hold(const Tokenizer& t) {
  for (uint32_t i = 0; i < t.header.n_added; ++i) {
    const uint32_t token = t.added_tokens[i];
    if (token >= t.header.n_tokens || token_text(t, token).empty() ||
        (t.token_flags[token] & format::kTokenAdded) == 0) {
      return false;
    }
    if (i == 0) continue;
    const std::span<const char> before = token_text(t, t.added_tokens[i - 1]);
    const std::span<const char> text = token_text(t, token);
    const int first_bytes = compare(before.first(1), text.first(1));
    if (first_bytes > 0) return false;
    if (first_bytes == 0 && before.size() < text.size()) return false;
    if (first_bytes == 0 && before.size() == text.size() && compare(before, text) >= 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

Status tokenizer_open(std::span<const uint8_t> section, uint32_t vocab_size, Tokenizer* tokenizer) {
  if (reinterpret_cast<uintptr_t>(section.data()) % alignof(uint32_t) != 0) {
    return Status::kMisaligned;
  }
  if (section.size() < sizeof(TokenizerHeader)) return Status::kCorrupt;
  Tokenizer t = {};
  std::memcpy(&t.header, section.data(), sizeof(t.header));
  if (!header_holds(t.header, vocab_size)) return Status::kCorrupt;
  Cursor cursor(section.subspan(sizeof(t.header)));
  t.token_ends = cursor.take<uint32_t>(t.header.n_tokens);
  t.token_flags = cursor.take<uint8_t>(t.header.n_tokens);
  t.sorted_tokens = cursor.take<uint32_t>(t.header.n_sorted);
  t.merge_ends = cursor.take<uint32_t>(t.header.n_tokens);
  t.merges = cursor.take<MergeEntry>(t.header.n_merges);
  t.byte_tokens = cursor.take<uint32_t>(kByteValues);
  t.added_tokens = cursor.take<uint32_t>(t.header.n_added);
  t.text = cursor.take<char>(t.header.text_bytes);
  if (!cursor.used_exactly()) return Status::kCorrupt;
  // Texts first: the other checks read them.
  if (!texts_hold(t) || !sorted_hold(t) || !merges_hold(t) || !bytes_hold(t) || !added_hold(t)) {
    return Status::kCorrupt;
  }
  *tokenizer = t;
  return Status::kOk;
}

}  // namespace cria
