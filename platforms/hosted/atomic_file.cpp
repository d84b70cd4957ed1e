#include "platforms/hosted/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "platforms/hosted/program_error.h"

namespace cria::hosted {

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  constexpr mode_t kMode = 0666;  // the umask narrows it
  if (path == "-") {
    path_ = "standard output";
    descriptor_ = ::dup(STDOUT_FILENO);
  } else {
    struct stat status = {};
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) {
      throw ProgramError(ExitCode::kBadInput, path + ": is a folder; give a file name");
    }
    int flags = O_WRONLY | O_CLOEXEC;
    if (!exists || S_ISREG(status.st_mode)) {
      temporary_path_ = path + "." + std::to_string(::getpid()) + ".tmp";
      flags |= O_CREAT | O_TRUNC;
    }
    descriptor_ = ::open((temporary_path_.empty() ? path : temporary_path_).c_str(), flags, kMode);
  }
  if (descriptor_ < 0) throw_system_error(errno, path_, "cannot write");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

void AtomicFile::write(const void* data, size_t n_bytes) {
  const char* next = static_cast<const char*>(data);
  while (n_bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, n_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE && temporary_path_.empty()) return;  // the reader has enough
    if (written <= 0) throw_system_error(errno, path_, "cannot write");
    next += written;
    n_bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  const int descriptor = descriptor_;
  descriptor_ = -1;
  bool failed = ::close(descriptor) != 0;
  if (!failed && !temporary_path_.empty()) {
    failed = std::rename(temporary_path_.c_str(), path_.c_str()) != 0;
  }
  if (!failed) return;
  const int error_number = errno;
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
  throw_system_error(error_number, path_, "cannot write");
}

}  // namespace cria::hosted
