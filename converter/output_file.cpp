#include "converter/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <string>
#include <system_error>

#include "converter/error.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

// A signal handler can reach only what is static. A slot's path is written before it is armed.
struct InterruptSlot {
  char path[PATH_MAX];
  std::atomic<int> armed;  // 0 free, 1 being written, 2 armed
};
constexpr size_t kSlots = 4;
constexpr int kFree = 0;
constexpr int kTaken = 1;
constexpr int kArmed = 2;
InterruptSlot interrupt_slots[kSlots];
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void on_interrupt(int signal) {
  for (const InterruptSlot& slot : interrupt_slots) {
    if (slot.armed.load() == kArmed) unlink(slot.path);
  }
  // The default action ends the program with the status that tells of the signal.
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

size_t arm_interrupt(const fs::path& path) {
  const std::string text = fs::absolute(path).string();
  for (size_t i = 0; i < kSlots && text.size() < PATH_MAX; ++i) {
    int expected = kFree;
    if (interrupt_slots[i].armed.compare_exchange_strong(expected, kTaken)) {
      std::memcpy(interrupt_slots[i].path, text.c_str(), text.size() + 1);
      interrupt_slots[i].armed.store(kArmed);
      return i;
    }
  }
  return kSlots;
}

[[noreturn]] void refuse(const fs::path& path, const std::string& problem) {
  throw ConvertError(ExitCode::kIo, path.string() + ": " + problem);
}

// Renaming onto a link would replace the link, and onto a device the device.
fs::path resolve(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) refuse(path, "is a folder; name a file to write");
  if (!fs::exists(status)) return path;
  if (!fs::is_regular_file(status)) refuse(path, "is not a regular file, so it is not replaced");
  return fs::is_symlink(path) ? fs::canonical(path) : path;
}

}  // namespace

void remove_temporary_files_on_interrupt() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // A signal that the parent chose to ignore stays ignored.
    if (std::signal(signal, on_interrupt) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
  // Writing past a limit or into a closed pipe is to be an error, not an end without words.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

OutputFile::OutputFile(const fs::path& path)
    : path_(resolve(path)),
      temporary_(path_.string() + ".tmp-" + std::to_string(getpid())),
      descriptor_(-1),
      interrupt_slot_(arm_interrupt(temporary_)) {
  constexpr mode_t kMode = 0666;  // less what umask takes away
  const auto create = [&] {
    return open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  };
  descriptor_ = create();
  if (descriptor_ < 0 && errno == EEXIST) {
    // Left by a killed process that had this one's number.
    unlink(temporary_.c_str());
    descriptor_ = create();
  }
  if (descriptor_ < 0) {
    const int error = errno;
    if (interrupt_slot_ < kSlots) interrupt_slots[interrupt_slot_].armed.store(kFree);
    fail(error);
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  if (interrupt_slot_ < kSlots) interrupt_slots[interrupt_slot_].armed.store(kFree);
}

void OutputFile::fail(int error) const {
  const char* advice =
      error == ENOSPC || error == EDQUOT ? "; free some space or write elsewhere" : "";
  refuse(path_, std::string("cannot be written: ") + std::strerror(error) + advice);
}

void OutputFile::write(uint64_t offset, std::span<const uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
}

void OutputFile::flush(uint64_t size_bytes) const {
  if (ftruncate(descriptor_, static_cast<off_t>(size_bytes)) != 0) fail(errno);
  if (fsync(descriptor_) != 0) fail(errno);
}

void OutputFile::commit() {
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  temporary_.clear();
  // The rename itself lasts once the folder is on the disk; where folders cannot be synced, the
  // file is still whole.
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  const int folder_descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_descriptor >= 0) {
    (void)fsync(folder_descriptor);
    close(folder_descriptor);
  }
}

}  // namespace cria::converter
