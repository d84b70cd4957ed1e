#include "platforms/hosted/input_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "platforms/hosted/interrupt.h"
#include "platforms/hosted/program_error.h"

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

}  // namespace

std::string read_descriptor(int descriptor, const std::string& name) {
  std::string text;
  while (read_some(descriptor, name, &text)) {
  }
  return text;
}

std::string read_text_file(const std::string& path) {
  if (path == "-") return read_descriptor(STDIN_FILENO, "standard input");
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      throw ProgramError(ExitCode::kBadInput, path + ": no such file");
    }
    throw_system_error(errno, path, "cannot open");
  }
  struct stat status = {};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(descriptor);
    throw ProgramError(ExitCode::kBadInput, path + ": is a folder; give a text file");
  }
  try {
    std::string text = read_descriptor(descriptor, path);
    ::close(descriptor);
    return text;
  } catch (const ProgramError&) {
    ::close(descriptor);
    throw;
  }
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

LineResult LineReader::next(std::string* line) {
  while (!take_line(line)) {
    if (ended_) return LineResult::kEnd;
    buffer_.erase(0, begin_);
    begin_ = 0;
    if (buffer_.size() > kMaxLineBytes) {
      throw ProgramError(ExitCode::kBadInput, "standard input: a line has more than 16 MiB");
    }
    if (wait_for_input(descriptor_) == InputWait::kInterrupted) return LineResult::kInterrupted;
    ended_ = !read_some(descriptor_, "standard input", &buffer_);
  }
  return LineResult::kLine;
}

}  // namespace cria::hosted
