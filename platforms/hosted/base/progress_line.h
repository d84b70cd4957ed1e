// How far a long command is, on stderr.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cria::hosted {

// "label  35 %  detail": one line that is redrawn in place, on a terminal only; it never fills the
// last column, so it never wraps. The destructor clears it.
class ProgressLine {
 public:
  explicit ProgressLine(std::string label);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Cheap; redraws at most ten times a second. An empty detail is left out; any other is shown as
  // printable text.
  void update(uint64_t done, uint64_t total, std::string_view detail);
  // The same without a share: "label  detail".
  void tell(std::string_view detail);
  // Whether an update would draw.
  bool is_due() const;
  // Draws nothing for so long: what is done sooner needs no line.
  void hold(int64_t wait_ms);
  // Wipes the line, so that something else can be written; the next update may draw at once.
  void clear();

 private:
  void draw(const std::string& text, std::string_view detail);

  std::string label_;
  bool shown_on_terminal_;
  bool drawn_ = false;
  int64_t next_draw_ms_ = 0;
};

}  // namespace cria::hosted
