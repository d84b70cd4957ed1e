// Finds added tokens ("<s>", "<|eot_id|>") written out in text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/pre_tokenizer.h"
#include "runtime/tokenizer.h"

namespace cria {

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin;
  size_t end;
};

// Which tokens a search looks for.
enum class AddedStage {
  kRaw,        // those without kTokenNormalized
  kNormalized  // those with it, where a space counts as U+2581
};

// A token of the text with the white space it swallows.
struct AddedMatch {
  size_t begin;  // the text's end when nothing was found
  size_t end;
  uint32_t token;  // kNone when nothing was found
};

// The added tokens of a tokenizer, ready to be searched for; points to it.
class AddedTokens {
 public:
  // plain          ranges of the whole text in which special tokens are not recognised, even in
  // part needs_space    kTokenAfterSpace is honoured; else such a token is also found without the
  // space
  AddedTokens(const Tokenizer& tokenizer, std::span<const TextRange> plain, bool needs_space);

  // The leftmost token at or after offset, the longest of several. origin is where text, without
  // its prefix, starts in the whole text. Cost: linear in the text up to the match, times the
  // number of tokens that start with the same byte.
  [[nodiscard]] AddedMatch find(const PrefixedText& text, size_t origin, size_t offset,
                                AddedStage stage) const;

 private:
  [[nodiscard]] bool may_start(char byte) const;
  [[nodiscard]] bool is_allowed(uint32_t token, TextRange range) const;
  [[nodiscard]] AddedMatch match_at(const PrefixedText& text, size_t origin, size_t from,
                                    size_t offset, AddedStage stage) const;

  const Tokenizer& tokenizer_;
  std::span<const TextRange> plain_;
  bool needs_space_;
  bool stage_there_[2];
  uint32_t first_bytes_[8];  // a bit for each byte that a token starts with
};

}  // namespace cria
