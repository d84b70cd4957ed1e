#include "converter/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "converter/error.h"
#include "converter/memory_size.h"
#include "platforms/hosted/base/file_kind.h"
#include "platforms/hosted/base/system_error.h"

namespace cria::converter {
namespace {

[[noreturn]] void fail(ExitCode code, const std::filesystem::path& path,
                       const std::string& reason) {
  throw ProgramError(code, path.string() + ": " + reason);
}

[[noreturn]] void refuse_kind(const std::filesystem::path& path, mode_t mode) {
  fail(ExitCode::kInvalidInput, path,
       std::string("is ") + hosted::file_kind(mode) + "; give a regular file");
}

[[noreturn]] void fail_to_open(const std::filesystem::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    fail(ExitCode::kInvalidInput, path,
         "no such file, or a link to nothing; check the name, or download it again");
  }
  if (error == ELOOP) {
    fail(ExitCode::kInvalidInput, path, "is a link that leads to itself; give a regular file");
  }
  // A socket, a device without a driver.
  struct stat info = {};
  if ((error == ENXIO || error == ENODEV) && stat(path.c_str(), &info) == 0) {
    refuse_kind(path, info.st_mode);
  }
  const bool is_forbidden = error == EACCES || error == EPERM;
  fail(ExitCode::kIo, path,
       hosted::system_error_text(error) + (is_forbidden ? "; make it readable" : ""));
}

// What a clone without Git LFS has in the place of a large file: a text of a few lines.
// One that cannot be read is told when it is needed.
bool is_lfs_pointer(int descriptor, uint64_t size_bytes) {
  constexpr std::string_view kBeginning = "version https://git-lfs";
  constexpr uint64_t kMostBytes = 1023;  // of a pointer
  if (size_bytes > kMostBytes) return false;
  std::array<char, kBeginning.size()> bytes;
  const ssize_t got = pread(descriptor, bytes.data(), bytes.size(), 0);
  return got == static_cast<ssize_t>(bytes.size()) &&
         std::string_view(bytes.data(), bytes.size()) == kBeginning;
}

}  // namespace

// Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
InputFile::InputFile(const std::filesystem::path& path)
    : path_(path),
      descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)),
      size_bytes_(0) {
  if (descriptor_ < 0) fail_to_open(path, errno);
  struct stat info = {};
  if (fstat(descriptor_, &info) != 0) {
    const int error = errno;
    close(descriptor_);
    fail(ExitCode::kIo, path, hosted::system_error_text(error));
  }
  if (!S_ISREG(info.st_mode)) {
    close(descriptor_);
    refuse_kind(path, info.st_mode);
  }
  size_bytes_ = static_cast<uint64_t>(info.st_size);
  if (is_lfs_pointer(descriptor_, size_bytes_)) {
    close(descriptor_);
    fail(ExitCode::kInvalidInput, path,
         "is a Git LFS pointer, not the file itself; fetch it with git lfs pull");
  }
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
    if (got < 0) fail(ExitCode::kIo, path_, hosted::system_error_text(errno));
    if (got == 0) fail(ExitCode::kIo, path_, "ends early: it was shortened while being read");
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

void InputFile::will_read(uint64_t offset, uint64_t n_bytes) const {
  // Only a hint: its failure changes nothing.
  (void)posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(n_bytes),
                      POSIX_FADV_WILLNEED);
}

std::string read_small_file(const std::filesystem::path& path, uint64_t max_bytes) {
  const InputFile file(path);
  if (file.size_bytes() > max_bytes) {
    fail(ExitCode::kInvalidInput, path,
         std::to_string(file.size_bytes()) + " bytes are too many for this file; at most " +
             std::to_string(max_bytes) + " are read");
  }
  std::string bytes(memory_size(file.size_bytes()), '\0');
  file.read(0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

}  // namespace cria::converter
