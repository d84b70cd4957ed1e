#include "platforms/hosted/session/arena_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {

uint64_t physical_memory_bytes() {
  const long n_pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (n_pages <= 0 || page_bytes <= 0) return std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(n_pages) * static_cast<uint64_t>(page_bytes);
}

void check_memory_for(uint64_t n_bytes, const char* what) {
  const uint64_t there_are =
      std::min<uint64_t>(physical_memory_bytes(), std::numeric_limits<size_t>::max());
  if (n_bytes <= there_are) return;
  throw ProgramError(
      ExitCode::kMemory,
      text_of("%s needs %s bytes (%s) of memory, this machine has %s; lower --context", what,
              grouped_digits(n_bytes).c_str(), megabytes(n_bytes).c_str(),
              megabytes(there_are).c_str()));
}

ArenaMemory::ArenaMemory(uint64_t n_bytes) {
  check_memory_for(n_bytes, "the model");
  int error_number = ENOMEM;
  if (n_bytes <= std::numeric_limits<size_t>::max()) {
    size_bytes_ = static_cast<size_t>(n_bytes);
    data_ =
        ::mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ != MAP_FAILED) {
#ifdef MADV_HUGEPAGE
      // Streaming the weights is faster through few large pages. Only advice: a refusal is no
      // error.
      ::madvise(data_, size_bytes_, MADV_HUGEPAGE);
#endif
      return;
    }
    error_number = errno;
  }
  throw ProgramError(
      ExitCode::kMemory,
      text_of("the model needs %s bytes (%s) of memory: %s; lower --context or free memory",
              grouped_digits(n_bytes).c_str(), megabytes(n_bytes).c_str(),
              std::strerror(error_number)));
}

void ArenaMemory::make_resident() const {
  const long asked = ::sysconf(_SC_PAGESIZE);
  const size_t page_bytes = asked > 0 ? static_cast<size_t>(asked) : 4096;
  auto* const bytes = static_cast<volatile uint8_t*>(data_);
  for (size_t i = 0; i < size_bytes_; i += page_bytes) bytes[i] = bytes[i];
}

ArenaMemory::~ArenaMemory() { ::munmap(data_, size_bytes_); }

}  // namespace cria::hosted
