// A mapped model file whose last byte is followed by a page that nobody may touch.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/cria.h"
#include "tests/support/guarded.h"

namespace cria::test {

// Holds a copy of file. Where the file's size is no multiple of 64, the alignment of its start
// leaves fewer than 64 bytes before the page.
class GuardedSource {
 public:
  explicit GuardedSource(std::span<const uint8_t> file) : memory_(file.size() + kAlignment) {
    const size_t slack = (kAlignment - file.size() % kAlignment) % kAlignment;
    uint8_t* const bytes = memory_.place<uint8_t>(file.size() + slack, Edge::kEnd);
    std::memcpy(bytes, file.data(), file.size());
    source_ = {bytes, file.size(),
               [](void* context, uint64_t offset, size_t) -> const void* {
                 return static_cast<const uint8_t*>(context) + offset;
               },
               nullptr};
  }
  [[nodiscard]] const cria_source& source() const { return source_; }

 private:
  static constexpr size_t kAlignment = 64;

  Guarded memory_;
  cria_source source_;
};

}  // namespace cria::test
