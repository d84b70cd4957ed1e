// Standard output, for text that appears as it is made. On a terminal control characters of the
// text are not passed on (platforms/hosted/base/control_filter.h); elsewhere every byte is.
#pragma once

#include <cstddef>
#include <string_view>

#include "platforms/hosted/base/control_filter.h"

namespace cria::hosted {

// A small buffer in front of write(2): no allocation, flushed by the destructor. A reader that went
// away (cria ... | head -1) is no error: closed() turns true and later text is dropped. Any
// other failure throws ProgramError kIo from put or flush.
class TextStream {
 public:
  explicit TextStream(int descriptor);
  ~TextStream();
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  void put(std::string_view text);
  // What is put from now on is dim, or no longer, where the terminal has colours.
  void set_dim(bool is_dim);
  void flush();

  bool closed() const { return closed_; }
  // Whether the last byte was a newline, or there was none.
  bool at_line_start() const { return at_line_start_; }
  // Ends a line that text was put on.
  void end_line();

 private:
  void put_filtered(std::string_view text);
  void write_all(const char* data, size_t n_bytes);

  const int descriptor_;
  const bool is_terminal_;
  const bool has_colours_;
  bool is_dim_ = false;
  ControlFilter filter_{Invisible::kKept};
  bool closed_ = false;
  bool at_line_start_ = true;
  size_t used_ = 0;
  char buffer_[4096];
};

}  // namespace cria::hosted
