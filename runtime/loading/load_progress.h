// What of a model's data all threads have loaded, told to the caller's hook, which may stop it.
#pragma once

#include <atomic>
#include <cstdint>

#include <cria.h>
#include "runtime/base/status.h"

namespace cria {

class LoadProgress {
 public:
  // hook may be null: then nobody asks. total is in bytes, as what is added.
  LoadProgress(cria_progress hook, void* context, uint64_t total)
      : hook_(hook), context_(context), total_(total) {}

  // Counts bytes that are done. The hook hears of them from one task, the first; all tasks end when
  // it has said so.
  [[nodiscard]] Status add(uint64_t n_bytes, size_t task) {
    if (hook_ == nullptr) return Status::kOk;
    const auto n = static_cast<size_t>(n_bytes);
    const size_t done = done_.fetch_add(n) + n;
    if (task == 0 && hook_(context_, done, total_) != 0) is_cancelled_ = true;
    return is_cancelled_ ? Status::kCancelled : Status::kOk;
  }

  // The last call, from the calling thread: all is done, padding included.
  [[nodiscard]] Status finish() {
    if (hook_ == nullptr) return Status::kOk;
    return hook_(context_, total_, total_) == 0 ? Status::kOk : Status::kCancelled;
  }

 private:
  cria_progress hook_;
  void* context_;
  uint64_t total_;
  std::atomic<size_t> done_ = 0;  // weights are in memory; wider ones small cores cannot count
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace cria
