#include "platforms/hosted/session/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "platforms/hosted/base/file_kind.h"
#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {
namespace {

static_assert(sizeof(off_t) == 8, "compile with _FILE_OFFSET_BITS=64");

[[noreturn]] void reject(const std::string& path, const std::string& what) {
  throw ProgramError(ExitCode::kInvalidInput, path + ": " + what);
}

// O_NONBLOCK: opening a named pipe must not wait for a writer.
int open_for_reading(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0) return descriptor;
  if (errno == ENOENT || errno == ENOTDIR) {
    reject(path, "no such file; give the .cria file that cria-convert wrote");
  }
  throw_system_error(errno, path, "cannot open");
}

}  // namespace

MappedFile::MappedFile(const std::string& path, Mapping mapping) {
  descriptor_ = open_for_reading(path);
  struct stat status = {};
  const int failed = ::fstat(descriptor_, &status);
  const int error_number = errno;
  const bool is_file = !failed && S_ISREG(status.st_mode);
  if (!is_file || status.st_size <= 0) {
    ::close(descriptor_);
    if (failed) throw_system_error(error_number, path, "cannot stat");
    if (S_ISDIR(status.st_mode)) {
      reject(path, "is a folder; convert a checkpoint with cria-convert first");
    }
    if (!is_file) {
      reject(path, std::string("is ") + file_kind(status.st_mode) + "; give a regular file");
    }
    reject(path, "is empty; copy or convert it again");
  }
  size_bytes_ = static_cast<uint64_t>(status.st_size);
  if (mapping == Mapping::kNever || size_bytes_ > std::numeric_limits<size_t>::max()) return;
  void* const base =
      ::mmap(nullptr, static_cast<size_t>(size_bytes_), PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (base == MAP_FAILED) return;
  base_ = static_cast<const unsigned char*>(base);
  guard_.emplace(base_, static_cast<size_t>(size_bytes_), path);
}

MappedFile::~MappedFile() {
  guard_.reset();
  if (base_ != nullptr) {
    ::munmap(const_cast<unsigned char*>(base_), static_cast<size_t>(size_bytes_));
  }
  ::close(descriptor_);
}

cria_source MappedFile::source() {
  cria_source source = copying_source();
  if (is_mapped()) source.map = &MappedFile::map;
  return source;
}

cria_source MappedFile::copying_source() {
  cria_source source = {};
  source.context = this;
  source.size = size_bytes_;
  source.read = &MappedFile::read;
  return source;
}

const void* MappedFile::map(void* context, uint64_t offset, size_t n_bytes) {
  const auto* file = static_cast<const MappedFile*>(context);
  if (offset > file->size_bytes_ || n_bytes > file->size_bytes_ - offset) return nullptr;
  return file->base_ + offset;
}

int MappedFile::read(void* context, uint64_t offset, void* destination, size_t n_bytes) {
  const auto* file = static_cast<const MappedFile*>(context);
  if (offset > file->size_bytes_ || n_bytes > file->size_bytes_ - offset) return 1;
  auto* out = static_cast<unsigned char*>(destination);
  while (n_bytes > 0) {
    const ssize_t got = ::pread(file->descriptor_, out, n_bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 1;
    out += got;
    offset += static_cast<uint64_t>(got);
    n_bytes -= static_cast<size_t>(got);
  }
  return 0;
}

}  // namespace cria::hosted
