// Finds added tokens ("<s>", "<|eot_id|>") written out in text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/text/prefixed_text.h"
#include "quant/text/tokenizer_view.h"

namespace cria {

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin;
  size_t end;
};

// Which tokens a search looks for.
enum class AddedStage {
  kRaw,        // those without kTokenNormalized
  kNormalized  // those with it, where a space counts as U+2581 (SentencePiece)
};

// Where a search looks, and what it takes.
struct AddedSearch {
  PrefixedText text;
  AddedStage stage;
  // Where text, without its prefix, starts in the whole text.
  size_t origin;
  // Ranges of the whole text in which special tokens are not recognised, even in part.
  std::span<const TextRange> plain;
  // kTokenAfterSpace is honoured; else such a token is also found without the space.
  bool needs_space;
};

// A token of the text with the white space it swallows.
struct AddedMatch {
  size_t begin;  // the text's end when nothing was found
  size_t end;
  uint32_t token;  // kNone when nothing was found
};

// The added tokens of a tokenizer that check_tokenizer filled; points to it.
class AddedTokens {
 public:
  explicit AddedTokens(const Tokenizer& tokenizer);

  // The leftmost token at or after offset, the longest of several. Cost: the text up to the match
  // times, at each place, a binary search for each different length of tokens of its first byte
  // (together at most format::kMaxAddedLengths bytes), each of whose steps may compare that many
  // bytes.
  [[nodiscard]] AddedMatch find(const AddedSearch& search, size_t offset) const;

 private:
  using Tokens = std::span<const uint32_t>;
  // A token agrees with the text in so many of its bytes; where the text goes on, and the bytes of
  // U+2581 that its space there has given already.
  struct Agreement {
    size_t depth;
    size_t place;
    size_t n_of_mark;
  };

  [[nodiscard]] bool folds(const AddedSearch& search) const {
    return folds_spaces_ && search.stage == AddedStage::kNormalized;
  }
  [[nodiscard]] bool may_start(char byte) const;
  [[nodiscard]] Tokens starting_with(char byte) const;
  [[nodiscard]] AddedMatch match_at(const AddedSearch& search, size_t from, size_t offset) const;
  [[nodiscard]] AddedMatch take(const AddedSearch& search, size_t from, size_t offset,
                                size_t match_end, uint32_t token) const;
  [[nodiscard]] uint32_t find_text(Tokens tokens, const AddedSearch& search, size_t offset,
                                   size_t* match_end) const;
  [[nodiscard]] char byte_at(const AddedSearch& search, const Agreement& a) const;
  [[nodiscard]] Agreement extend(const AddedSearch& search, uint32_t token, Agreement a) const;

  const Tokenizer& tokenizer_;
  bool folds_spaces_;
};

}  // namespace cria
