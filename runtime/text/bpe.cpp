#include "runtime/text/bpe.h"

#include <algorithm>

namespace cria {

using format::kNone;
using format::MergeEntry;

BpeWord::BpeWord(const Tokenizer& tokenizer, std::span<uint8_t> workspace)
    : tokenizer_(tokenizer),
      symbols_(reinterpret_cast<BpeSymbol*>(workspace.data())),
      capacity_(
          static_cast<uint32_t>(std::min<size_t>(workspace.size() / sizeof(BpeSymbol), kNone - 1))),
      n_symbols_(0),
      n_heap_(0) {}

bool BpeWord::append(uint32_t token) {
  if (n_symbols_ == capacity_) return false;
  const uint32_t index = n_symbols_++;
  symbols_[index] = {token, index == 0 ? kNone : index - 1, kNone, 0, 0, kNone, kNone};
  if (index > 0) symbols_[index - 1].next = index;
  return true;
}

void BpeWord::merge() {
  n_heap_ = 0;
  for (uint32_t i = 0; i + 1 < n_symbols_; ++i) {
    if (find_merge(i)) put(n_heap_++, i);
  }
  for (uint32_t place = n_heap_ / 2; place-- > 0;) sift_down(place);
  while (n_heap_ > 0) {
    const uint32_t left = symbols_[0].heap_entry;
    BpeSymbol& symbol = symbols_[left];
    const BpeSymbol& right = symbols_[symbol.next];
    if (right.heap_place != kNone) remove(right.heap_place);
    symbol.token = symbol.result;
    symbol.next = right.next;
    if (symbol.next != kNone) symbols_[symbol.next].previous = left;
    update(left);
    if (symbol.previous != kNone) update(symbol.previous);
  }
}

bool BpeWord::find_merge(uint32_t index) {
  BpeSymbol& symbol = symbols_[index];
  if (symbol.next == kNone) return false;
  const uint32_t right = symbols_[symbol.next].token;
  const MergeEntry* const begin =
      tokenizer_.merges + (symbol.token == 0 ? 0 : tokenizer_.merge_ends[symbol.token - 1]);
  const MergeEntry* const end = tokenizer_.merges + tokenizer_.merge_ends[symbol.token];
  const MergeEntry* const found = std::lower_bound(
      begin, end, right,
      [](const MergeEntry& entry, uint32_t wanted) { return entry.right < wanted; });
  if (found == end || found->right != right) return false;
  symbol.rank = found->rank;
  symbol.result = found->result;
  return true;
}

void BpeWord::update(uint32_t index) {
  const uint32_t place = symbols_[index].heap_place;
  if (!find_merge(index)) {
    if (place != kNone) remove(place);
    return;
  }
  if (place == kNone) {
    put(n_heap_, index);
    sift_up(n_heap_++);
    return;
  }
  sift_up(place);
  sift_down(symbols_[index].heap_place);
}

void BpeWord::remove(uint32_t place) {
  symbols_[symbols_[place].heap_entry].heap_place = kNone;
  const uint32_t last = symbols_[--n_heap_].heap_entry;
  if (place == n_heap_) return;
  put(place, last);
  sift_up(place);
  sift_down(symbols_[last].heap_place);
}

bool BpeWord::before(uint32_t a, uint32_t b) const {
  const uint32_t rank_a = symbols_[a].rank;
  const uint32_t rank_b = symbols_[b].rank;
  // The list keeps the order of the indices, so a lower index is further left.
  return rank_a != rank_b ? rank_a < rank_b : a < b;
}

void BpeWord::put(uint32_t place, uint32_t index) {
  symbols_[place].heap_entry = index;
  symbols_[index].heap_place = place;
}

void BpeWord::sift_up(uint32_t place) {
  const uint32_t index = symbols_[place].heap_entry;
  while (place > 0) {
    const uint32_t parent = (place - 1) / 2;
    const uint32_t above = symbols_[parent].heap_entry;
    if (!before(index, above)) break;
    put(place, above);
    place = parent;
  }
  put(place, index);
}

void BpeWord::sift_down(uint32_t place) {
  const uint32_t index = symbols_[place].heap_entry;
  // A place below n_heap_ / 2 has a child.
  while (place < n_heap_ / 2) {
    uint32_t child = 2 * place + 1;
    if (child + 1 < n_heap_ && before(symbols_[child + 1].heap_entry, symbols_[child].heap_entry)) {
      ++child;
    }
    const uint32_t below = symbols_[child].heap_entry;
    if (!before(below, index)) break;
    put(place, below);
    place = child;
  }
  put(place, index);
}

}  // namespace cria
