#include "platforms/hosted/base/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "platforms/hosted/base/signal_slots.h"
#include "platforms/hosted/base/system_error.h"

namespace cria::hosted {
namespace {

static_assert(sizeof(off_t) == 8, "compile with _FILE_OFFSET_BITS=64");

constexpr mode_t kModeBits = 0777;
// The umask narrows it.
constexpr mode_t new_mode(Readers readers) { return readers == Readers::kOwner ? 0600 : 0666; }

struct TemporaryFile {
  int folder;
  char name[32];
};
using TemporaryFiles = SignalSlots<TemporaryFile>;
TemporaryFiles temporary_files;

void on_signal(int signal_number) {
  remove_temporary_files();
  // The default action ends the program with the status that tells of the signal.
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

// Short, whatever the target's name is: that may be as long as a name can be.
std::string random_name() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number))) return {};
  char name[sizeof(TemporaryFile::name)];
  std::snprintf(name, sizeof(name), "cria-%016llx.tmp", static_cast<unsigned long long>(number));
  return name;
}

struct SplitPath {
  std::string folder;
  std::string name;  // empty: the path ends in a slash
};

SplitPath split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// Needs the right to search the folder alone. A link in it is looked up from here, as the system
// does it, however long the folder's path is.
int open_folder(int base, const std::string& path) {
  return ::openat(base, path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

bool is_standard_output(const struct stat& file) {
  struct stat output = {};
  return ::fstat(STDOUT_FILENO, &output) == 0 && output.st_dev == file.st_dev &&
         output.st_ino == file.st_ino;
}

// 0 or the error. File systems that cannot do it say so with EINVAL.
int bring_to_disk(int descriptor) {
  int failed = 0;
  do {
    failed = ::fsync(descriptor);
  } while (failed != 0 && errno == EINTR);
  return failed == 0 || errno == EINVAL ? 0 : errno;
}

}  // namespace

OutputError::OutputError(Kind kind, std::string path, const std::string& message)
    : kind_(kind), path_(std::move(path)), line_(path_ + ": " + message) {}

void remove_temporary_files() noexcept {
  temporary_files.look_at_each(
      [](const TemporaryFile& file) { ::unlinkat(file.folder, file.name, 0); });
}

void remove_temporary_files_on_signals() {
  for (const int signal_number :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction action = {};
    ::sigaction(signal_number, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = &on_signal;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal_number, &action, nullptr);
  }
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

OutputFile::OutputFile(const std::string& path, InPlace in_place, Readers readers)
    : path_(path), slot_(TemporaryFiles::kSize) {
  try {
    open(in_place, readers);
  } catch (const OutputError&) {
    release();
    throw;
  }
}

OutputFile::~OutputFile() { release(); }

void OutputFile::open(InPlace in_place, Readers readers) {
  const bool may_be_in_place = in_place == InPlace::kWhereNeeded;
  if (may_be_in_place && path_ == "-") {
    path_ = "standard output";
    return open_in_place(::dup(STDOUT_FILENO));
  }
  if (path_.empty()) {
    path_ = "output file";
    refuse("has an empty name; give another");
  }
  struct stat status = {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail(errno);
  if (exists && S_ISDIR(status.st_mode)) refuse("is a folder; give a file name");
  if (exists && !S_ISREG(status.st_mode)) {
    if (!may_be_in_place) refuse("is not a regular file, so it is not replaced; give a file name");
    return open_in_place(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  }
  // A name of standard output, as /dev/stdout. Replacing its file would lose what is written next.
  if (exists && may_be_in_place && is_standard_output(status)) {
    return open_in_place(::dup(STDOUT_FILENO));
  }
  find_target();
  create_temporary(readers);
}

void OutputFile::open_in_place(int descriptor) {
  if (descriptor < 0) fail(errno);
  descriptor_ = descriptor;
}

// Follows links from folder to folder until a name is none.
void OutputFile::find_target() {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  std::string path = path_;
  for (int n_links = 0; n_links <= kMostLinks; ++n_links) {
    const SplitPath parts = split(path);
    const int folder = open_folder(folder_ < 0 ? AT_FDCWD : folder_, parts.folder);
    if (folder < 0) fail(errno, errno == ENOENT ? "; make the folder first" : "");
    if (folder_ >= 0) ::close(folder_);
    folder_ = folder;
    name_ = parts.name;
    if (name_.empty()) refuse("names a folder; give a file name");
    char link[PATH_MAX];
    const ssize_t length = ::readlinkat(folder_, name_.c_str(), link, sizeof(link));
    if (length < 0 && (errno == EINVAL || errno == ENOENT)) return;
    if (length < 0) fail(errno);
    path.assign(link, static_cast<size_t>(length));
  }
  fail(ELOOP);
}

void OutputFile::create_temporary(Readers readers) {
  struct stat status = {};
  const bool exists = ::fstatat(folder_, name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!exists && errno != ENOENT) fail(errno);
  if (exists && !S_ISREG(status.st_mode)) refuse("is not a regular file; give a file name");
  // A write-protected file is protected, though its folder lets it be replaced.
  if (exists && ::faccessat(folder_, name_.c_str(), W_OK, 0) != 0) fail(errno);
  const mode_t mode = exists ? status.st_mode & kModeBits : new_mode(readers);
  const std::string temporary = random_name();
  if (temporary.empty()) fail(errno);
  slot_ = temporary_files.arm([&](TemporaryFile* file) {
    file->folder = folder_;
    std::memcpy(file->name, temporary.c_str(), temporary.size() + 1);
  });
  descriptor_ = ::openat(folder_, temporary.c_str(),
                         O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (descriptor_ < 0) fail(errno);
  temporary_ = temporary;
  // What the umask took from it. A file system without permission bits refuses, and has none to
  // keep.
  if (exists) (void)::fchmod(descriptor_, mode);
}

void OutputFile::release() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlinkat(folder_, temporary_.c_str(), 0);
  temporary_files.free(slot_);
  if (folder_ >= 0) ::close(folder_);
  temporary_.clear();
  descriptor_ = folder_ = -1;
  slot_ = TemporaryFiles::kSize;
}

void OutputFile::fail(int error_number, const char* advice) const {
  throw OutputError(OutputError::Kind::kIo, path_,
                    "cannot write: " + system_error_text(error_number) + advice);
}

void OutputFile::refuse(const std::string& why) const {
  throw OutputError(OutputError::Kind::kPath, path_, why);
}

void OutputFile::write(uint64_t offset, std::span<const uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t put =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(put < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
}

void OutputFile::read(uint64_t offset, std::span<uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(got < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

void OutputFile::append(const void* data, size_t n_bytes) {
  const auto* next = static_cast<const uint8_t*>(data);
  if (folder_ >= 0) {
    write(appended_, {next, n_bytes});
    appended_ += n_bytes;
    return;
  }
  while (n_bytes > 0) {
    const ssize_t put = ::write(descriptor_, next, n_bytes);
    if (put > 0) {
      next += put;
      n_bytes -= static_cast<size_t>(put);
    } else if (put < 0 && errno == EPIPE) {
      reader_left_ = true;
      return;
    } else if (put < 0 && errno == EAGAIN) {
      pollfd waiting = {.fd = descriptor_, .events = POLLOUT, .revents = 0};
      ::poll(&waiting, 1, -1);
    } else if (put == 0 || errno != EINTR) {
      fail(put < 0 ? errno : EIO);
    }
  }
}

void OutputFile::start_flush(uint64_t offset, uint64_t n_bytes) const {
#ifdef SYNC_FILE_RANGE_WRITE
  // What fails here fails in flush.
  (void)::sync_file_range(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(n_bytes),
                          SYNC_FILE_RANGE_WRITE);
#else
  (void)offset, (void)n_bytes;
#endif
}

void OutputFile::flush(uint64_t size_bytes) const {
  if (::ftruncate(descriptor_, static_cast<off_t>(size_bytes)) != 0) fail(errno);
  if (const int error_number = bring_to_disk(descriptor_); error_number != 0) fail(error_number);
}

void OutputFile::commit() {
  if (folder_ >= 0) {
    if (const int error_number = bring_to_disk(descriptor_); error_number != 0) fail(error_number);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(errno);
  if (folder_ < 0) return;
  if (::renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0) fail(errno);
  temporary_.clear();
  // The rename itself lasts once the folder is on the disk; where a folder cannot be synced, the
  // file is still whole.
  const int folder = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
  release();
}

}  // namespace cria::hosted
