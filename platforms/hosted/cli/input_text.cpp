#include "platforms/hosted/cli/input_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "platforms/hosted/base/file_kind.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/session/interrupt.h"

namespace cria::hosted {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kMaxLineBytes = 16 * 1024 * 1024;

// Appends what one read returns to text; false at the end.
bool read_some(int descriptor, const std::string& name, std::string* text) {
  const size_t before = text->size();
  text->resize(before + kReadBytes);
  ssize_t got = -1;
  do {
    got = ::read(descriptor, text->data() + before, kReadBytes);
  } while (got < 0 && errno == EINTR);
  const int error_number = errno;
  text->resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
  if (got < 0) throw_system_error(error_number, name, "cannot read");
  return got > 0;
}

[[noreturn]] void refuse(const std::string& name, const std::string& problem,
                         const std::string& advice) {
  throw ProgramError(ExitCode::kInvalidInput,
                     name + ": " + problem + (advice.empty() ? "" : "; " + advice));
}

[[noreturn]] void refuse_long(const std::string& name, uint64_t most_bytes,
                              const std::string& advice) {
  refuse(name,
         text_of("is longer than the %s bytes that are read", grouped_digits(most_bytes).c_str()),
         advice);
}

constexpr const char* kShorter = "give a part of it";

// A file open for reading, no folder; advice is of no folder.
struct InputFile {
  InputFile(const std::string& path, int flags, const std::string& advice);
  ~InputFile() { ::close(descriptor); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int descriptor;
  mode_t mode = 0;
  uint64_t size_bytes = 0;
};

InputFile::InputFile(const std::string& path, int flags, const std::string& advice)
    : descriptor(::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY)) {
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) refuse(path, "no such file", "check the name");
    throw_system_error(errno, path, "cannot open");
  }
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    const int error_number = errno;
    ::close(descriptor);
    throw_system_error(error_number, path, "cannot stat");
  }
  if (S_ISDIR(status.st_mode)) {
    ::close(descriptor);
    refuse(path, "is a folder", advice);
  }
  mode = status.st_mode;
  size_bytes = static_cast<uint64_t>(status.st_size);
}

void need_regular(const InputFile& file, const std::string& path, const std::string& advice) {
  if (!S_ISREG(file.mode)) refuse(path, std::string("is ") + file_kind(file.mode), advice);
}

std::string read_all(int descriptor, const std::string& name, uint64_t most_bytes,
                     const std::string& advice) {
  std::string text;
  while (read_some(descriptor, name, &text)) {
    if (text.size() > most_bytes) refuse_long(name, most_bytes, advice);
  }
  return text;
}

}  // namespace

std::string read_descriptor(int descriptor, const std::string& name, uint64_t most_bytes) {
  return read_all(descriptor, name, most_bytes, kShorter);
}

std::string name_of_input(const std::string& path) { return path == "-" ? "standard input" : path; }

std::string read_text_file(const std::string& path) {
  if (path == "-") return read_descriptor(STDIN_FILENO, "standard input", kMostTextBytes);
  // Waits for whoever writes to a pipe.
  const InputFile file(path, O_RDONLY, "give a file");
  if (S_ISREG(file.mode) && file.size_bytes > kMostTextBytes) {
    refuse_long(path, kMostTextBytes, kShorter);
  }
  return read_descriptor(file.descriptor, path, kMostTextBytes);
}

std::string read_regular_start(const std::string& path, size_t n_bytes, const std::string& advice) {
  const InputFile file(path, O_RDONLY | O_NONBLOCK, advice);
  need_regular(file, path, advice);
  std::string text;
  while (text.size() < n_bytes && read_some(file.descriptor, path, &text)) {
  }
  text.resize(std::min(text.size(), n_bytes));
  return text;
}

std::string read_regular_file(const std::string& path, uint64_t most_bytes,
                              const std::string& advice) {
  const InputFile file(path, O_RDONLY | O_NONBLOCK, advice);
  need_regular(file, path, advice);
  if (file.size_bytes > most_bytes) refuse_long(path, most_bytes, advice);
  return read_all(file.descriptor, path, most_bytes, advice);
}

void drop_last_newline(std::string* text) {
  if (!text->empty() && text->back() == '\n') {
    text->pop_back();
    if (!text->empty() && text->back() == '\r') text->pop_back();
  }
}

bool LineReader::take_line(std::string* line) {
  size_t end = buffer_.find('\n', begin_);
  if (end == std::string::npos) {
    if (!ended_ || begin_ == buffer_.size()) return false;
    end = buffer_.size();
  }
  line->assign(buffer_, begin_, end - begin_);
  if (!line->empty() && line->back() == '\r') line->pop_back();
  begin_ = end < buffer_.size() ? end + 1 : end;
  return true;
}

LineResult LineReader::next(std::string* line, const IdleWork& work) {
  while (!take_line(line)) {
    if (ended_) return LineResult::kEnd;
    buffer_.erase(0, begin_);
    begin_ = 0;
    if (buffer_.size() > kMaxLineBytes) {
      throw ProgramError(ExitCode::kInvalidInput,
                         "standard input: a line has more than 16 MiB; break or shorten it");
    }
    work_until_input(descriptor_, work);
    if (wait_for_input(descriptor_) == InputWait::kInterrupted) return LineResult::kInterrupted;
    ended_ = !read_some(descriptor_, "standard input", &buffer_);
  }
  return LineResult::kLine;
}

}  // namespace cria::hosted
