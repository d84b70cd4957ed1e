// The one block of memory that a session lives in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::hosted {

// Anonymous pages, so aligned to more than 64 bytes and resident only once written. Released by the
// destructor.
class ArenaMemory {
 public:
  // Takes n_bytes >= 1. Throws ProgramError kMemory, naming the bytes needed, when the system
  // does not give them.
  explicit ArenaMemory(uint64_t n_bytes);
  ~ArenaMemory();
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace cria::hosted
