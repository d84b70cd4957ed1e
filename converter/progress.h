// What a person watching a conversion sees on standard error.
#pragma once

#include <cstdint>
#include <string>

#include "platforms/hosted/base/progress_line.h"

namespace cria::converter {

enum class Verbosity { kNormal, kQuiet };

class Progress {
 public:
  explicit Progress(Verbosity verbosity);

  // Shown even when quiet.
  void warn(const std::string& line);
  // Text of any number of lines; not shown when quiet.
  void say(const std::string& text);

  // A progress line, unless quiet: total, then how much is done so far, then finish.
  void start(uint64_t total);
  void advance(uint64_t amount, const std::string& what);
  void finish();

 private:
  void draw(const std::string& what);

  Verbosity verbosity_;
  hosted::ProgressLine line_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

}  // namespace cria::converter
