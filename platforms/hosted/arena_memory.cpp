#include "platforms/hosted/arena_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "platforms/hosted/print_format.h"
#include "platforms/hosted/program_error.h"

namespace cria::hosted {

ArenaMemory::ArenaMemory(uint64_t n_bytes) {
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

ArenaMemory::~ArenaMemory() { ::munmap(data_, size_bytes_); }

}  // namespace cria::hosted
