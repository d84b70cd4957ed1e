// A bump allocator over the caller's memory. Nothing is ever freed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format/align.h"
#include "runtime/base/status.h"

namespace cria {

class Arena {
 public:
  Arena() = default;
  // base is aligned to format::kAlignment.
  Arena(void* base, size_t n_bytes) : base_(static_cast<uint8_t*>(base)), capacity_(n_bytes) {}

  // n_bytes rounded up to 64, aligned to 64, contents undefined; null when it does not fit.
  // n_bytes == 0 gives a valid pointer to nothing.
  [[nodiscard]] uint8_t* take(uint64_t n_bytes) {
    const uint64_t rounded = aligned(n_bytes);
    if (rounded < n_bytes || rounded > capacity_ - used_) return nullptr;
    uint8_t* p = base_ + used_;
    used_ += static_cast<size_t>(rounded);
    return p;
  }

  [[nodiscard]] size_t used() const { return used_; }

 private:
  uint8_t* base_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
};

// Takes memory that the plan has counted; failing means that plan and code disagree.
template <typename T>
[[nodiscard]] Status take(Arena* arena, uint64_t n_bytes, T** out) {
  *out = reinterpret_cast<T*>(arena->take(n_bytes));
  return *out != nullptr ? Status::kOk : Status::kMemoryTooSmall;
}

}  // namespace cria
