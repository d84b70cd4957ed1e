// What a person watching a conversion sees on standard error.
#pragma once

#include <cstdint>
#include <string>

namespace cria::converter {

enum class Verbosity { kNormal, kQuiet };

class Progress {
 public:
  explicit Progress(Verbosity verbosity);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shown even when quiet.
  void warn(const std::string& line);
  // Text of any number of lines; not shown when quiet.
  void say(const std::string& text);

  // A bar, only on a terminal and unless quiet: total, then how much is done so far, then finish.
  void start(uint64_t total);
  void advance(uint64_t amount, const std::string& what);
  void finish();

 private:
  void draw(const std::string& what);
  void clear();

  bool shows_text_;
  bool shows_bar_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
  bool drawn_ = false;
};

}  // namespace cria::converter
