#include "converter/progress.h"

#include <algorithm>

#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/base/terminal.h"

namespace cria::converter {

Progress::Progress(Verbosity verbosity) : verbosity_(verbosity), line_("converting") {}

void Progress::warn(const std::string& line) {
  line_.clear();
  hosted::write_stderr("cria-convert: warning: " + hosted::printable(line) + "\n");
}

void Progress::say(const std::string& text) {
  if (verbosity_ == Verbosity::kQuiet) return;
  line_.clear();
  hosted::write_stderr(text);
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

void Progress::finish() { line_.clear(); }

void Progress::draw(const std::string& what) {
  if (verbosity_ == Verbosity::kNormal) line_.update(std::min(done_, total_), total_, what);
}

}  // namespace cria::converter
