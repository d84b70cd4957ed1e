#include "platforms/hosted/session/arena_memory.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>

#include "platforms/hosted/base/cgroup_limits.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {
namespace {

#ifdef MADV_HUGEPAGE
constexpr int kLarge = MADV_HUGEPAGE;
constexpr int kSmall = MADV_NOHUGEPAGE;
#endif

size_t small_page_bytes() {
  const long asked = ::sysconf(_SC_PAGESIZE);
  return asked > 0 ? static_cast<size_t>(asked) : 4096;
}

// Only advice: a refusal is no error.
void advise([[maybe_unused]] uint8_t* data, [[maybe_unused]] size_t n_bytes,
            [[maybe_unused]] int advice) {
#ifdef MADV_HUGEPAGE
  ::madvise(data, n_bytes, advice);
#endif
}

void touch(volatile uint8_t* byte) { *byte = *byte; }

#ifdef MADV_HUGEPAGE
// Where small pages have 4 KiB. Where they have more, large ones are of tens of megabytes, too few
// to choose by.
constexpr size_t kLargePageBytes = size_t{2} << 20;
constexpr size_t kSmallPageBytes = 4096;

// Of this thread, so that others that run meanwhile do not count; what a host does for a page does.
double thread_seconds() {
  timespec t = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Of the small pages of a large one, which get touched, at the speed of the fastest eighth of them:
// others may be of those that a host has taken back.
double seconds_of_small_pages(uint8_t* page) {
  constexpr size_t kParts = 8;
  constexpr size_t kPartBytes = kLargePageBytes / kParts;
  double least = std::numeric_limits<double>::max();
  for (size_t part = 0; part < kParts; ++part) {
    const double before = thread_seconds();
    for (size_t i = 0; i < kPartBytes; i += kSmallPageBytes) touch(page + part * kPartBytes + i);
    least = std::min(least, thread_seconds() - before);
  }
  return least * kParts;
}

// Large pages [0, n), for each thread a part of them.
struct LargePages {
  uint8_t* data;
  size_t n;
  size_t n_parts;
  double small_seconds;
  std::atomic<bool> pay;

  static void take_part(void* argument, size_t i) {
    auto* const pages = static_cast<LargePages*>(argument);
    const size_t end = pages->n * (i + 1) / pages->n_parts;
    LargePageBudget budget(pages->small_seconds);
    double before = thread_seconds();
    for (size_t at = pages->n * i / pages->n_parts; at < end; ++at) {
      if (!pages->pay.load(std::memory_order_relaxed)) {
        advise(pages->data + at * kLargePageBytes, (end - at) * kLargePageBytes, kSmall);
        return;
      }
      touch(pages->data + at * kLargePageBytes);
      const double now = thread_seconds();
      if (!budget.add(now - before)) pages->pay.store(false, std::memory_order_relaxed);
      before = now;
    }
  }
};
#endif

uint64_t physical_memory_bytes() {
  const long n_pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (n_pages <= 0 || page_bytes <= 0) return std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(n_pages) * static_cast<uint64_t>(page_bytes);
}

}  // namespace

uint64_t usable_memory_bytes() {
  return std::min(physical_memory_bytes(), cgroup_limits().memory_bytes);
}

void check_memory_for(uint64_t n_bytes, const char* what, const std::string& advice) {
  const uint64_t there_are =
      std::min<uint64_t>(usable_memory_bytes(), std::numeric_limits<size_t>::max());
  if (n_bytes <= there_are) return;
  const bool is_container = there_are < physical_memory_bytes();
  throw ProgramError(
      ExitCode::kMemory,
      text_of("%s needs %s bytes (%s) of memory, %s %s; %s", what, grouped_digits(n_bytes).c_str(),
              megabytes(n_bytes).c_str(),
              is_container ? "the limit of this container (cgroup) is" : "this machine has",
              megabytes(there_are).c_str(), advice.c_str()));
}

ArenaMemory::ArenaMemory(uint64_t n_bytes, const std::string& advice) {
  check_memory_for(n_bytes, "the model", advice);
  int error_number = ENOMEM;
  if (n_bytes <= std::numeric_limits<size_t>::max()) {
    size_bytes_ = static_cast<size_t>(n_bytes);
    data_ =
        ::mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ != MAP_FAILED) {
#ifdef MADV_HUGEPAGE
      // Streaming the weights is faster through few large pages.
      advise(static_cast<uint8_t*>(data_), size_bytes_, kLarge);
#endif
      return;
    }
    error_number = errno;
  }
  throw ProgramError(ExitCode::kMemory,
                     text_of("the model needs %s bytes (%s) of memory: %s; %s or free memory",
                             grouped_digits(n_bytes).c_str(), megabytes(n_bytes).c_str(),
                             std::strerror(error_number), advice.c_str()));
}

void ArenaMemory::make_resident() const {
  const size_t page_bytes = small_page_bytes();
  auto* const bytes = static_cast<uint8_t*>(data_);
  for (size_t i = 0; i < size_bytes_; i += page_bytes) touch(bytes + i);
}

void ArenaMemory::take_pages([[maybe_unused]] size_t n_bytes,
                             [[maybe_unused]] ThreadPool* pool) const {
#ifdef MADV_HUGEPAGE
  auto* const begin = static_cast<uint8_t*>(data_);
  // From the first large page on.
  const size_t skipped =
      (kLargePageBytes - reinterpret_cast<uintptr_t>(begin) % kLargePageBytes) % kLargePageBytes;
  constexpr size_t kFewestPages = 32;
  if (small_page_bytes() != kSmallPageBytes) return;
  if (n_bytes < skipped + kFewestPages * kLargePageBytes) return;
  uint8_t* const first = begin + skipped;
  // One large page's place is given to small ones, to know what those take.
  advise(first, kLargePageBytes, kSmall);
  const double small_seconds = seconds_of_small_pages(first);
  LargePages pages = {first + kLargePageBytes,
                      (n_bytes - skipped) / kLargePageBytes - 1,
                      pool->n_threads(),
                      small_seconds,
                      {true}};
  pool->run(&LargePages::take_part, &pages, pages.n_parts);
  if (pages.pay.load(std::memory_order_relaxed)) return;
  uint8_t* const behind = pages.data + pages.n * kLargePageBytes;
  advise(behind, size_bytes_ - static_cast<size_t>(behind - begin), kSmall);
#endif
}

void ArenaMemory::allow_merging([[maybe_unused]] size_t n_bytes) const {
#ifdef MADV_HUGEPAGE
  advise(static_cast<uint8_t*>(data_), n_bytes, kLarge);
#endif
}

ArenaMemory::~ArenaMemory() { ::munmap(data_, size_bytes_); }

}  // namespace cria::hosted
