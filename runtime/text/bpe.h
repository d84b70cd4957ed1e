// Merges the symbols of one word by rank: the heart of BPE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/model/memory_plan.h"
#include "runtime/text/tokenizer.h"

namespace cria {

// A symbol of the word: a link of the list, the merge with its right neighbour, and one place of
// the heap, which orders those merges and has nothing else to do with this symbol.
struct BpeSymbol {
  uint32_t token;
  uint32_t previous;    // index, kNone at the start
  uint32_t next;        // index, kNone at the end
  uint32_t rank;        // of the merge with next
  uint32_t result;      // of the merge with next
  uint32_t heap_place;  // where this symbol is in the heap; kNone: no merge with next
  uint32_t heap_entry;  // the symbol at this place of the heap
};
static_assert(sizeof(BpeSymbol) == kEncodeBytesPerSymbol);

// A word being built and merged in the caller's memory; no destructor, nothing to release.
class BpeWord {
 public:
  // workspace is 4-byte aligned and outlives the word.
  BpeWord(const Tokenizer& tokenizer, std::span<uint8_t> workspace);

  void clear() { n_symbols_ = 0; }
  // Returns false when the workspace is full.
  [[nodiscard]] bool append(uint32_t token);
  // Merges the neighbours of lowest rank, the leftmost of equal ones, until no merge is left.
  // Cost: n log n table look-ups, each logarithmic.
  void merge();

  // The symbols in order: for (i = first(); i != kNone; i = next(i)) token(i).
  [[nodiscard]] uint32_t first() const { return n_symbols_ == 0 ? format::kNone : 0; }
  [[nodiscard]] uint32_t next(uint32_t index) const { return symbols_[index].next; }
  [[nodiscard]] uint32_t token(uint32_t index) const { return symbols_[index].token; }

 private:
  // Looks up the merge of a symbol with its right neighbour; false when there is none.
  bool find_merge(uint32_t index);
  // Puts the symbol where its merge belongs in the heap, or takes it out.
  void update(uint32_t index);
  void remove(uint32_t place);
  void sift_up(uint32_t place);
  void sift_down(uint32_t place);
  [[nodiscard]] bool before(uint32_t a, uint32_t b) const;
  void put(uint32_t place, uint32_t index);

  const Tokenizer& tokenizer_;
  BpeSymbol* symbols_;
  uint32_t capacity_;
  uint32_t n_symbols_;
  uint32_t n_heap_;
};

}  // namespace cria
