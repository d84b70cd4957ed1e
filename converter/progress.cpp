#include "converter/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "converter/shown_text.h"

namespace cria::converter {
namespace {

constexpr size_t kDefaultColumns = 80;
constexpr size_t kBarColumns = 24;
constexpr double kPercent = 100;
constexpr size_t kPercentBytes = 16;

void put(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

size_t terminal_columns() {
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kDefaultColumns;
}

}  // namespace

Progress::Progress(Verbosity verbosity)
    : shows_text_(verbosity == Verbosity::kNormal),
      shows_bar_(verbosity == Verbosity::kNormal && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::warn(const std::string& line) {
  clear();
  put("cria-convert: warning: " + printable(line) + "\n");
}

void Progress::say(const std::string& text) {
  if (!shows_text_) return;
  clear();
  put(text);
}

void Progress::start(uint64_t total) {
  total_ = total;
  done_ = 0;
  draw("");
}

void Progress::advance(uint64_t amount, const std::string& what) {
  done_ += amount;
  draw(what);
}

void Progress::finish() {
  clear();
  total_ = 0;
}

void Progress::draw(const std::string& what) {
  if (!shows_bar_ || total_ == 0) return;
  const double share = static_cast<double>(std::min(done_, total_)) / static_cast<double>(total_);
  const auto filled = static_cast<size_t>(share * kBarColumns);
  std::array<char, kPercentBytes> percent;
  std::snprintf(percent.data(), percent.size(), "] %3.0f %%  ", std::floor(share * kPercent));
  std::string line = "[";
  line.append(filled, '#').append(kBarColumns - filled, '.');
  line.append(percent.data()).append(printable(what));
  // One column stays free, or some terminals wrap.
  line.resize(std::min(line.size(), terminal_columns() - 1));
  put("\r" + line + "\x1b[K");
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) put("\r\x1b[K");
  drawn_ = false;
}

}  // namespace cria::converter
