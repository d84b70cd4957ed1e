// What the handlers of signals look at: they can reach only what is static.
#pragma once

#include <atomic>
#include <cstddef>

namespace cria::hosted {

// A few values, each put there and taken away by any thread. Static.
template <typename Value>
class SignalSlots {
 public:
  static constexpr size_t kSize = 4;

  // The place of a value, which put(Value*) writes before a handler sees it; kSize, and nothing is
  // put, when all are taken.
  template <typename Put>
  size_t arm(const Put& put) {
    for (size_t i = 0; i < kSize; ++i) {
      int expected = kFree;
      if (!slots_[i].state.compare_exchange_strong(expected, kTaken)) continue;
      put(&slots_[i].value);
      slots_[i].state.store(kArmed);
      return i;
    }
    return kSize;
  }

  void free(size_t place) {
    if (place < kSize) slots_[place].state.store(kFree);
  }

  // For handlers.
  template <typename Look>
  void look_at_each(const Look& look) const {
    for (const Slot& slot : slots_) {
      if (slot.state.load() == kArmed) look(slot.value);
    }
  }

 private:
  static constexpr int kFree = 0;
  static constexpr int kTaken = 1;
  static constexpr int kArmed = 2;
  struct Slot {
    Value value;
    std::atomic<int> state;
  };
  static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

  Slot slots_[kSize];
};

}  // namespace cria::hosted
