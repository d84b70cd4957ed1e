#include "converter/tokenizer_tables.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "converter/error.h"
#include "quant/text/utf8.h"

namespace cria::converter {
namespace {

using format::kNone;
using format::MergeEntry;
using format::PreTokenizer;
using format::TokenizerHeader;
using format::TokenizerKind;

[[noreturn]] void refuse(const TokenizerModel& model, const std::string& problem) {
  throw ProgramError(ExitCode::kInvalidInput, model.where + ": " + problem);
}

bool is_special(const TokenizerToken& token) { return (token.flags & format::kTokenSpecial) != 0; }

bool is_one_character(std::string_view text) {
  constexpr uint8_t kContinuationMask = 0xc0;
  constexpr uint8_t kContinuation = 0x80;
  return std::count_if(text.begin(), text.end(), [](char c) {
           return (static_cast<uint8_t>(c) & kContinuationMask) != kContinuation;
         }) == 1;
}

std::vector<uint32_t> sorted_tokens(const TokenizerModel& model) {
  const bool by_character = model.kind == TokenizerKind::kSentencePieceBpe;
  std::vector<uint32_t> sorted;
  if (!by_character && (model.flags & format::kIgnoreMerges) == 0) return sorted;
  for (uint32_t id = 0; id < model.tokens.size(); ++id) {
    const TokenizerToken& token = model.tokens[id];
    if (token.is_word && !is_special(token) && !token.text.empty() &&
        (!by_character || is_one_character(token.text))) {
      sorted.push_back(id);
    }
  }
  std::sort(sorted.begin(), sorted.end(), [&model](uint32_t a, uint32_t b) {
    return model.tokens[a].text < model.tokens[b].text;
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (model.tokens[sorted[i - 1]].text == model.tokens[sorted[i]].text) {
      refuse(model, "tokens " + std::to_string(sorted[i - 1]) + " and " +
                        std::to_string(sorted[i]) + " have the same text");
    }
  }
  return sorted;
}

std::vector<uint32_t> added_tokens(const TokenizerModel& model) {
  std::vector<uint32_t> added;
  for (uint32_t id = 0; id < model.tokens.size(); ++id) {
    if ((model.tokens[id].flags & format::kTokenAdded) != 0) added.push_back(id);
  }
  std::sort(added.begin(), added.end(), [&model](uint32_t a, uint32_t b) {
    const std::string& x = model.tokens[a].text;
    const std::string& y = model.tokens[b].text;
    if (x[0] != y[0]) return static_cast<uint8_t>(x[0]) < static_cast<uint8_t>(y[0]);
    return x.size() != y.size() ? x.size() > y.size() : x < y;
  });
  return added;
}

// Orders merges by a token of theirs, in linear time; those with one token keep their order.
template <typename TokenOf>
void sort_by_token(size_t n_tokens, const TokenOf& token_of, std::vector<TokenizerMerge>* merges) {
  std::vector<uint32_t> places(n_tokens + 1, 0);
  for (const TokenizerMerge& merge : *merges) ++places[token_of(merge) + 1];
  std::partial_sum(places.begin(), places.end(), places.begin());
  std::vector<TokenizerMerge> sorted(merges->size());
  for (const TokenizerMerge& merge : *merges) sorted[places[token_of(merge)]++] = merge;
  *merges = std::move(sorted);
}

// The merges that the runtime may use, ordered by left and right.
std::vector<TokenizerMerge> usable_merges(const TokenizerModel& model) {
  std::vector<TokenizerMerge> merges;
  merges.reserve(model.merges.size());
  for (const TokenizerMerge& merge : model.merges) {
    const TokenizerToken& left = model.tokens[merge.left];
    const TokenizerToken& right = model.tokens[merge.right];
    const TokenizerToken& result = model.tokens[merge.result];
    const bool concatenates = result.text.size() == left.text.size() + right.text.size() &&
                              result.text.starts_with(left.text) &&
                              result.text.ends_with(right.text);
    if (concatenates && !is_special(left) && !is_special(right) && !is_special(result)) {
      merges.push_back(merge);
    }
  }
  const auto same_pair = [](const TokenizerMerge& a, const TokenizerMerge& b) {
    return a.left == b.left && a.right == b.right;
  };
  sort_by_token(
      model.tokens.size(), [](const auto& merge) { return merge.right; }, &merges);
  sort_by_token(
      model.tokens.size(), [](const auto& merge) { return merge.left; }, &merges);
  // unique() keeps the first of equal neighbours, and seen from the end that is the later one.
  const auto kept = std::unique(merges.rbegin(), merges.rend(), same_pair);
  merges.erase(merges.begin(), kept.base());
  return merges;
}

// Collects the arrays of the section, each aligned to 4.
class SectionWriter {
 public:
  template <typename T>
  void put(std::span<const T> values) {
    bytes_.resize((bytes_.size() + sizeof(uint32_t) - 1) / sizeof(uint32_t) * sizeof(uint32_t));
    const size_t offset = bytes_.size();
    bytes_.resize(offset + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + offset, values.data(), values.size_bytes());
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(std::span<const T>(values));
  }
  [[nodiscard]] std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

// A special token is never made of text, so the byte would be lost.
void check_byte_tokens(const TokenizerModel& model) {
  for (const uint32_t id : model.byte_tokens) {
    if (id >= model.tokens.size() || !is_special(model.tokens[id])) continue;
    refuse(model, "token " + std::to_string(id) +
                      " is a single byte of text and cannot be special; correct the " +
                      "checkpoint's added tokens");
  }
}

void check_limits(const TokenizerModel& model) {
  if (model.tokens.empty()) refuse(model, "it has no tokens");
  if (model.merges.size() > format::kMaxMerges) refuse(model, "it has too many merges");
  size_t text_bytes = 0;
  for (const TokenizerToken& token : model.tokens) {
    if (token.text.size() > format::kMaxTokenBytes) {
      refuse(model, "a token has " + std::to_string(token.text.size()) + " bytes; at most " +
                        std::to_string(format::kMaxTokenBytes) + " are supported");
    }
    text_bytes += token.text.size();
  }
  if (text_bytes > format::kMaxTokenTextBytes) refuse(model, "its tokens have too much text");
}

}  // namespace

TokenizerModel::TokenizerModel() { byte_tokens.fill(kNone); }

TokenizerToken& TokenizerModel::at(uint32_t id) {
  if (id >= format::kMaxVocab) refuse(*this, "token id " + std::to_string(id) + " is too large");
  if (id >= tokens.size()) tokens.resize(size_t{id} + 1);
  return tokens[id];
}

std::optional<uint32_t> TokenizerModel::find(std::string_view text) const {
  std::optional<uint32_t> found;
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].text != text || text.empty()) continue;
    if ((tokens[id].flags & format::kTokenAdded) != 0) return id;
    if (!found) found = id;
  }
  return found;
}

void add_token(const AddedToken& added, TokenizerModel* model) {
  if (added.text.empty()) return;
  if (added.single_word) {
    refuse(*model, "added token '" + shown(added.text) + "' with single_word is not supported");
  }
  TokenizerToken& token = model->at(added.id);
  if (!token.text.empty() && token.text != added.text) {
    refuse(*model, "added token '" + shown(added.text) + "' has id " + std::to_string(added.id) +
                       ", which is that of '" + shown(token.text) + "'");
  }
  token.text = added.text;
  token.flags = static_cast<uint8_t>(token.flags & ~format::kTokenByte);
  token.flags |= format::kTokenAdded;
  if (added.special) token.flags |= format::kTokenSpecial;
  if (added.strip_left) token.flags |= format::kTokenStripLeft;
  if (added.strip_right) token.flags |= format::kTokenStripRight;
}

PreTokenizer choose_word_cut(const TokenizerModel& model) {
  const auto crosses = [&model](const TokenizerMerge& merge) {
    return model.tokens[merge.right].text.starts_with(kSpaceMarkText) &&
           !model.tokens[merge.left].text.ends_with(kSpaceMarkText);
  };
  const bool any = std::any_of(model.merges.begin(), model.merges.end(), crosses);
  // An unknown U+2581 would be fused with what stands before it.
  const bool known = std::any_of(model.tokens.begin(), model.tokens.end(), [](const auto& token) {
    return token.is_word && token.text == kSpaceMarkText;
  });
  return any || !known ? PreTokenizer::kWhole : PreTokenizer::kSpaceRuns;
}

std::vector<uint8_t> build_tokenizer_section(const TokenizerModel& model) {
  check_limits(model);
  check_byte_tokens(model);
  const std::vector<uint32_t> sorted = sorted_tokens(model);
  const std::vector<uint32_t> added = added_tokens(model);
  const std::vector<TokenizerMerge> merges = usable_merges(model);
  const size_t n_tokens = model.tokens.size();
  std::vector<uint32_t> token_ends(n_tokens);
  std::vector<uint8_t> token_flags(n_tokens);
  std::vector<char> text;
  size_t longest = 0;
  for (size_t i = 0; i < n_tokens; ++i) {
    const TokenizerToken& token = model.tokens[i];
    text.insert(text.end(), token.text.begin(), token.text.end());
    token_ends[i] = static_cast<uint32_t>(text.size());
    token_flags[i] = token.flags;
    longest = std::max(longest, token.text.size());
  }
  std::vector<uint32_t> merge_ends(n_tokens, 0);
  std::vector<MergeEntry> entries;
  entries.reserve(merges.size());
  for (const TokenizerMerge& merge : merges) {
    entries.push_back({merge.right, merge.rank, merge.result});
    ++merge_ends[merge.left];
  }
  std::partial_sum(merge_ends.begin(), merge_ends.end(), merge_ends.begin());

  TokenizerHeader header = {};
  header.kind = static_cast<uint32_t>(model.kind);
  header.pre_tokenizer = static_cast<uint32_t>(model.pre_tokenizer);
  header.flags = model.flags;
  header.n_tokens = static_cast<uint32_t>(n_tokens);
  header.n_sorted = static_cast<uint32_t>(sorted.size());
  header.n_merges = static_cast<uint32_t>(entries.size());
  header.n_added = static_cast<uint32_t>(added.size());
  header.text_bytes = static_cast<uint32_t>(text.size());
  header.bos_token = model.bos_token;
  header.eos_token = model.eos_token;
  header.unknown_token = model.unknown_token;
  header.longest_token = static_cast<uint32_t>(longest);
  header.pre_tokenizer_bytes = static_cast<uint32_t>(model.pre_tokenizer_tables.size());
  SectionWriter writer;
  writer.put(std::span<const TokenizerHeader>(&header, 1));
  writer.put(token_ends);
  writer.put(token_flags);
  writer.put(sorted);
  writer.put(merge_ends);
  writer.put(entries);
  writer.put(std::span<const uint32_t>(model.byte_tokens));
  writer.put(added);
  writer.put(text);
  if (!model.pre_tokenizer_tables.empty()) writer.put(model.pre_tokenizer_tables);
  return writer.take();
}

}  // namespace cria::converter
