#include "platforms/hosted/base/progress_line.h"

#include <unistd.h>

#include <cmath>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/base/text_width.h"

namespace cria::hosted {

ProgressLine::ProgressLine(std::string label)
    : label_(std::move(label)), shown_on_terminal_(stderr_has_escapes()) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(uint64_t done, uint64_t total, std::string_view detail) {
  constexpr double kPercent = 100.0;
  if (total == 0 || !is_due()) return;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  // 100 is the end, nothing before it.
  draw(text_of("%s %3.0f %%", label_.c_str(), std::floor(kPercent * share)), detail);
}

void ProgressLine::tell(std::string_view detail) {
  if (is_due()) draw(label_, detail);
}

void ProgressLine::draw(const std::string& text, std::string_view detail) {
  constexpr int64_t kRedrawMs = 100;
  next_draw_ms_ = monotonic_ms() + kRedrawMs;
  std::string line = text;
  if (!detail.empty()) line += "  " + printable(detail);
  line.resize(bytes_within(line, terminal_columns(STDERR_FILENO) - 1));
  write_stderr("\r" + line + "\033[K");
  drawn_ = true;
}

bool ProgressLine::is_due() const { return shown_on_terminal_ && monotonic_ms() >= next_draw_ms_; }

void ProgressLine::hold(int64_t wait_ms) { next_draw_ms_ = monotonic_ms() + wait_ms; }

void ProgressLine::clear() {
  if (drawn_) write_stderr("\r\033[K");
  drawn_ = false;
  next_draw_ms_ = 0;
}

}  // namespace cria::hosted
