#include "converter/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "converter/error.h"

namespace cria::converter {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw ConvertError(ExitCode::kIo, path.string() + ": " + reason);
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)), size_bytes_(0) {
  if (descriptor_ < 0) fail(path, std::strerror(errno));
  struct stat info = {};
  const bool is_file = fstat(descriptor_, &info) == 0 && S_ISREG(info.st_mode);
  if (!is_file) {
    close(descriptor_);
    fail(path, "is not a regular file");
  }
  size_bytes_ = static_cast<uint64_t>(info.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

void InputFile::read(uint64_t offset, std::span<uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, std::strerror(errno));
    if (got == 0) fail(path_, "ends early: it was shortened while being read");
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

void InputFile::will_read(uint64_t offset, uint64_t n_bytes) const {
  // Only a hint: its failure changes nothing.
  (void)posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(n_bytes),
                      POSIX_FADV_WILLNEED);
}

}  // namespace cria::converter
