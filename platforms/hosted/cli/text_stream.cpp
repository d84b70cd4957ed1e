#include "platforms/hosted/cli/text_stream.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/terminal.h"

namespace cria::hosted {

TextStream::TextStream(int descriptor)
    : descriptor_(descriptor),
      is_terminal_(is_terminal(descriptor)),
      has_colours_(has_colours(descriptor)) {}

TextStream::~TextStream() {
  try {
    flush();
    used_ = filter_.finish(buffer_);
    flush();
    set_dim(false);
  } catch (const ProgramError&) {
    // The explicit flush before a command's end reports errors; here another one is under way.
  }
}

void TextStream::put(std::string_view text) {
  if (text.empty() || closed_) return;
  at_line_start_ = text.back() == '\n';
  if (is_terminal_) return put_filtered(text);
  if (text.size() > sizeof(buffer_) - used_) flush();
  if (text.size() > sizeof(buffer_)) return write_all(text.data(), text.size());
  std::memcpy(buffer_ + used_, text.data(), text.size());
  used_ += text.size();
}

void TextStream::set_dim(bool is_dim) {
  if (!has_colours_ || is_dim == is_dim_ || closed_) return;
  constexpr std::string_view kDim = "\033[2m";
  constexpr std::string_view kNormal = "\033[0m";
  flush();
  const std::string_view escape = is_dim ? kDim : kNormal;
  write_all(escape.data(), escape.size());
  is_dim_ = is_dim;
}

void TextStream::put_filtered(std::string_view text) {
  for (const char byte : text) {
    if (sizeof(buffer_) - used_ < ControlFilter::kMostBytes) flush();
    used_ += filter_.feed(byte, buffer_ + used_);
  }
}

void TextStream::flush() {
  const size_t n_bytes = used_;
  used_ = 0;
  write_all(buffer_, n_bytes);
}

void TextStream::end_line() {
  if (!at_line_start_) put("\n");
  flush();
}

void TextStream::write_all(const char* data, size_t n_bytes) {
  while (n_bytes > 0 && !closed_) {
    const ssize_t written = ::write(descriptor_, data, n_bytes);
    if (written >= 0) {
      data += written;
      n_bytes -= static_cast<size_t>(written);
    } else if (errno == EPIPE) {
      closed_ = true;
    } else if (errno == EAGAIN) {
      pollfd waiting = {.fd = descriptor_, .events = POLLOUT, .revents = 0};
      ::poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      throw_system_error(errno, "standard output", "cannot write");
    }
  }
}

}  // namespace cria::hosted
