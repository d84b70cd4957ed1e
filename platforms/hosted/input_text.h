// Text that a command reads as a whole, or line by line.
#pragma once

#include <cstddef>
#include <string>

namespace cria::hosted {

// Everything from descriptor to its end. Throws ProgramError kIo when reading fails; name is what
// the message calls it.
std::string read_descriptor(int descriptor, const std::string& name);

// The whole file; "-" is standard input. A missing file or a folder is kBadInput.
std::string read_text_file(const std::string& path);

// Drops one newline ("\n" or "\r\n") from the end of text: the one that echo and editors add.
void drop_last_newline(std::string* text);

enum class LineResult { kLine, kEnd, kInterrupted };

// Lines of a descriptor, without their newline. Needs an InterruptGuard when Ctrl-C is to end a
// wait.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  // A last line without a newline counts. Throws ProgramError kIo, and kBadInput for a line of
  // more than 16 MiB.
  LineResult next(std::string* line);

 private:
  bool take_line(std::string* line);

  int descriptor_;
  bool ended_ = false;
  size_t begin_ = 0;  // of the bytes of buffer_ not yet handed out
  std::string buffer_;
};

}  // namespace cria::hosted
