#include "platforms/hosted/base/progress_line.h"

#include <unistd.h>

#include <cmath>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/base/terminal.h"

namespace cria::hosted {

ProgressLine::ProgressLine(std::string label)
    : label_(std::move(label)), shown_on_terminal_(stderr_has_escapes()) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(uint64_t done, uint64_t total, std::string_view detail) {
  constexpr int64_t kRedrawMs = 100;
  constexpr double kPercent = 100.0;
  if (!shown_on_terminal_ || total == 0) return;
  const int64_t now_ms = monotonic_ms();
  if (now_ms < next_draw_ms_) return;
  next_draw_ms_ = now_ms + kRedrawMs;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  // 100 is the end, nothing before it.
  std::string line = text_of("%s %3.0f %%", label_.c_str(), std::floor(kPercent * share));
  if (!detail.empty()) line += "  " + printable(detail);
  const size_t columns = terminal_columns(STDERR_FILENO);
  if (line.size() >= columns) line.resize(columns - 1);
  write_stderr("\r" + line + "\033[K");
  drawn_ = true;
}

void ProgressLine::clear() {
  if (drawn_) write_stderr("\r\033[K");
  drawn_ = false;
  next_draw_ms_ = 0;
}

}  // namespace cria::hosted
