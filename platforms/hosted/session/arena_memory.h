// The one block of memory that a session lives in, and how much of it there can be.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::hosted {

// Bytes of this machine's memory; the largest number where that is unknown.
uint64_t physical_memory_bytes();

// Throws ProgramError kMemory when n_bytes are more than the machine has or a
// program can address: the system might give
// them and stop the program, or another one, once they are written. what is the subject of the
// message.
void check_memory_for(uint64_t n_bytes, const char* what);

// Anonymous pages, so aligned to more than 64 bytes and resident only once written. Released by the
// destructor.
class ArenaMemory {
 public:
  // Takes n_bytes >= 1. Throws ProgramError kMemory, naming the bytes needed, when the machine does
  // not have them or the system does not give them.
  explicit ArenaMemory(uint64_t n_bytes);
  ~ArenaMemory();
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  // Has every page now, so that what the program takes does not grow while it is used. Changes no
  // byte; nobody else writes meanwhile.
  void make_resident() const;

  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace cria::hosted
