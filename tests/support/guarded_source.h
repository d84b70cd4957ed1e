// Model bytes as a source whose last byte lies right before memory that nobody may touch: a page
// without access, and with the address sanitizer also the few bytes that alignment leaves.
#pragma once

#include <cstdint>
#include <span>

#include <cria.h>
#include "tests/support/guarded.h"
#include "tests/support/test_session.h"

namespace cria::test {

class GuardedSource {
 public:
  // All of file, mapped.
  explicit GuardedSource(std::span<const uint8_t> file)
      : GuardedSource(file, file.size(), Access::kMap) {}
  // bytes: all that may be touched. n_bytes <= bytes.size() is the size that the source tells.
  GuardedSource(std::span<const uint8_t> bytes, uint64_t n_bytes, Access access);
  ~GuardedSource();
  GuardedSource(const GuardedSource&) = delete;
  GuardedSource& operator=(const GuardedSource&) = delete;

  [[nodiscard]] const cria_source& source() const { return source_; }

 private:
  Guarded pages_;
  uint8_t* end_;
  size_t slack_;
  cria_source source_;
};

}  // namespace cria::test
