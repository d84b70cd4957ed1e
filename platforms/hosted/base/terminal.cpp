#include "platforms/hosted/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "platforms/hosted/base/control_filter.h"
#include "platforms/hosted/base/print_format.h"

namespace cria::hosted {
namespace {

constexpr size_t kUsualColumns = 80;
constexpr int64_t kRedrawMs = 100;

bool terminal_is_dumb() {
  const char* const kind = std::getenv("TERM");
  return kind == nullptr || std::strcmp(kind, "dumb") == 0;
}

bool stderr_has_colours() {
  const char* const no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && no_colour[0] != '\0') return false;
  return is_terminal(STDERR_FILENO) && !terminal_is_dumb();
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

std::string coloured(Colour colour, const std::string& text) {
  if (!stderr_has_colours()) return text;
  return escape_of(colour) + text + "\033[0m";
}

void write_stderr(const std::string& text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

void print_notice(const std::string& text) {
  constexpr size_t kIndent = 2;
  if (!is_terminal(STDERR_FILENO)) return write_stderr(text + "\n");
  const std::string shown = without_controls(text, Lines::kKept);
  const std::string wrapped = wrap_words(shown, terminal_columns(STDERR_FILENO), kIndent);
  write_stderr(coloured(Colour::kNotice, wrapped) + "\n");
}

void print_warning(const std::string& text) { print_notice("cria: warning: " + text); }

ProgressLine::ProgressLine(std::string label)
    : label_(std::move(label)),
      shown_on_terminal_(is_terminal(STDERR_FILENO) && !terminal_is_dumb()) {}

ProgressLine::~ProgressLine() {
  if (drawn_) write_stderr("\r\033[K");
}

void ProgressLine::update(uint64_t done, uint64_t total) {
  constexpr double kPercent = 100.0;
  if (!shown_on_terminal_ || total == 0) return;
  const int64_t now_ms = monotonic_ms();
  if (now_ms < next_draw_ms_) return;
  next_draw_ms_ = now_ms + kRedrawMs;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  std::string line = text_of("%s %3.0f %%", label_.c_str(), kPercent * share);
  const size_t columns = terminal_columns(STDERR_FILENO);
  if (line.size() >= columns) line.resize(columns - 1);
  write_stderr("\r" + line + "\033[K");
  drawn_ = true;
}

int64_t monotonic_ms() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<milliseconds>(now).count();
}

double monotonic_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace cria::hosted
