// Cuts text into the words that merges stay inside.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/text/prefixed_text.h"
#include "quant/text/tokenizer_view.h"

namespace cria {

// Walks the automata of the tables (PreTokenizer::kStages) over one text, word by word. Each stage
// cuts the pieces of the stage before it; a piece is a text of its own to it. Bytes that are no
// UTF-8 count as U+FFFD.
//
// Cost: linear. Tables of the converter read each byte a constant number of times
// (converter/automaton_rules.h); those that would read more than format::kMaxReadsPerByte bytes a
// byte of the text are given up.
class StageCutter {
 public:
  // Both outlive the cutter.
  StageCutter(const PreTokenizerTables& tables, const PrefixedText& text);

  // Where the word ends that starts at begin, which is 0 or the end of the word before; greater
  // than begin, or 0 when the tables are given up. begin < text.n_bytes.
  [[nodiscard]] size_t word_end(size_t begin);
  // Bytes read so far, some of them several times.
  [[nodiscard]] uint64_t n_read() const { return n_read_; }

 private:
  // No match follows where a walk is in this state at one of these places: what the last long walk
  // for nothing has found out.
  struct Failure {
    uint32_t state;
    size_t first;
    size_t last;
  };
  struct Progress {
    size_t piece_end;
    // The next match of the stage at or after the end of the last piece, or two times the end of
    // the text the stage cuts; unknown where match_end is 0.
    size_t match_begin;
    size_t match_end;
    Failure failure;
  };
  // A match, or the text before the next one.
  struct Item {
    size_t end;
    bool is_match;
  };
  struct Place {
    uint32_t char_class;
    uint32_t n_bytes;
  };

  [[nodiscard]] Place at(size_t offset);
  [[nodiscard]] uint32_t class_of(uint32_t code);
  [[nodiscard]] size_t piece_end(uint32_t stage, size_t begin, size_t end);
  [[nodiscard]] Item item(uint32_t stage, size_t begin, size_t end);
  void find_match(uint32_t stage, size_t begin, size_t end);
  [[nodiscard]] size_t walk(uint32_t stage, size_t begin, size_t end);
  [[nodiscard]] size_t careful_walk(uint32_t stage, size_t begin, size_t end);

  const PreTokenizerTables& tables_;
  const PrefixedText& text_;
  uint64_t n_read_ = 0;
  uint64_t most_read_;
  uint32_t run_ = 0;  // that has the last character
  Progress progress_[format::kMaxSplitStages];
};

// Where the word that starts at offset < text.n_bytes ends, for every kind but kStages; greater
// than offset. Cost: linear in the word; text after the word is read no further than one character
// past it.
[[nodiscard]] size_t word_end(format::PreTokenizer kind, const PrefixedText& text, size_t offset);

}  // namespace cria
