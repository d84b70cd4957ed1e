// The one block of memory that a session lives in, and how much of it there can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "platforms/hosted/base/thread_pool.h"

namespace cria::hosted {

// Advice for who lacks memory.
inline constexpr char kLowerContext[] = "lower --context";

// Whether large pages still pay. A virtual machine whose host has taken free memory back gets it
// again at the first touch, and large pages are what it took: some milliseconds each then, several
// times what the small pages in their place would take.
class LargePageBudget {
 public:
  // What the small pages of one large page take.
  explicit LargePageBudget(double small_seconds) : small_seconds_(small_seconds) {}
  // Counts a large page. False when those of late took longer than small ones would have, by the
  // time of sixteen large pages of them: what a thread loses at most, but for the last one.
  bool add(double seconds) {
    credit_ += small_seconds_ - seconds;
    if (credit_ > kMostPages * small_seconds_) credit_ = kMostPages * small_seconds_;
    return credit_ >= 0.0;
  }

 private:
  static constexpr double kMostPages = 16;

  double small_seconds_;
  double credit_ = kMostPages * small_seconds_;
};

// Bytes of memory that this program can have: the machine's, or what its control groups allow; the
// largest number where that is unknown.
uint64_t usable_memory_bytes();

// Throws ProgramError kMemory when n_bytes are more than that or than a program can address:
// the system might give them and stop the program, or another one, once they are written. what is
// the subject of the message, advice its end.
void check_memory_for(uint64_t n_bytes, const char* what,
                      const std::string& advice = kLowerContext);

// Anonymous pages, so aligned to more than 64 bytes and resident only once written. Released by the
// destructor.
class ArenaMemory {
 public:
  // Takes n_bytes >= 1. Throws ProgramError kMemory, naming the bytes needed and the advice, when
  // the machine does not have them or the system does not give them.
  explicit ArenaMemory(uint64_t n_bytes, const std::string& advice = kLowerContext);
  ~ArenaMemory();
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  // Has the pages of the first n_bytes, which are about to be written, in the threads of the pool:
  // large ones as long as they pay (LargePageBudget), the rest and all that follows small then.
  // Changes no byte; nobody else writes meanwhile.
  void take_pages(size_t n_bytes, ThreadPool* pool) const;
  // After take_pages, once they are written: the system may put small pages together to large ones
  // as it finds the time.
  void allow_merging(size_t n_bytes) const;

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
