#include "platforms/hosted/base/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "platforms/hosted/base/background_writer.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"

namespace cria::hosted {
namespace {

constexpr size_t kUsualColumns = 80;

std::unique_ptr<BackgroundWriter> stderr_writer;  // null: write_stderr waits

bool obeys_escapes(int descriptor) {
  const char* const kind = std::getenv("TERM");
  return is_terminal(descriptor) && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

const char* escape_of(Colour colour) {
  switch (colour) {
    case Colour::kPrompt:
      return "\033[1;32m";
    case Colour::kNotice:
      return "\033[2m";
  }
  return "";
}

}  // namespace

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

size_t terminal_columns(int descriptor) {
  winsize size = {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualColumns;
  return size.ws_col;
}

bool stderr_has_escapes() { return obeys_escapes(STDERR_FILENO); }

bool has_colours(int descriptor) {
  const char* const no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && no_colour[0] != '\0') return false;
  return obeys_escapes(descriptor);
}

std::string coloured(Colour colour, const std::string& text) {
  if (!has_colours(STDERR_FILENO)) return text;
  return escape_of(colour) + text + "\033[0m";
}

void write_stderr(const std::string& text) {
  if (stderr_writer != nullptr) return stderr_writer->put(text);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

void write_stderr_in_background() {
  constexpr size_t kMostBytes = size_t{256} << 10;
  stderr_writer = std::make_unique<BackgroundWriter>(STDERR_FILENO, kMostBytes);
}

uint64_t n_stderr_lines_dropped() {
  return stderr_writer != nullptr ? stderr_writer->n_dropped() : 0;
}

void finish_stderr() { stderr_writer = nullptr; }

bool has_room(int descriptor) {
  pollfd waits = {.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&waits, 1, 0) != 0;
}

void print_notice(const std::string& text) {
  constexpr size_t kIndent = 2;
  if (!is_terminal(STDERR_FILENO)) return write_stderr(text + "\n");
  const std::string shown = without_controls(text);
  const std::string wrapped = wrap_words(shown, terminal_columns(STDERR_FILENO), kIndent);
  write_stderr(coloured(Colour::kNotice, wrapped) + "\n");
}

}  // namespace cria::hosted
