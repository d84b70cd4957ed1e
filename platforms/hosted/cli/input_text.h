// Text that a command reads as a whole, or line by line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "platforms/hosted/cli/idle_work.h"

namespace cria::hosted {

// Bytes of the longest text that a command reads, so that a stream without an end has one. Encoding
// takes up to 30 times as much memory.
constexpr uint64_t kMostTextBytes = uint64_t{64} << 20;

// Everything from descriptor to its end, at most most_bytes: more is kInvalidInput. Throws
// ProgramError kIo when reading fails; name is what the message calls it.
std::string read_descriptor(int descriptor, const std::string& name, uint64_t most_bytes);

// What a message calls an input: its path, or "standard input" for "-".
std::string name_of_input(const std::string& path);

// The whole file of at most kMostTextBytes; "-" is standard input. A missing file or a folder is
// kInvalidInput.
std::string read_text_file(const std::string& path);

// The same for a regular file alone, of at most most_bytes, which is known before it is read; a
// pipe or a device is kInvalidInput. advice is what the user can do about a file that is none of
// those; empty: nothing is said.
std::string read_regular_file(const std::string& path, uint64_t most_bytes,
                              const std::string& advice);

// The first n_bytes of a regular file, or what there is of them.
std::string read_regular_start(const std::string& path, size_t n_bytes, const std::string& advice);

// Drops one newline ("\n" or "\r\n") from the end of text: the one that echo and editors add.
void drop_last_newline(std::string* text);

// kCleared: Ctrl-C where it takes a line back (platforms/hosted/cli/line_editor.h).
enum class LineResult { kLine, kEnd, kInterrupted, kCleared };

// Lines of a descriptor, without their newline. Needs an InterruptGuard when Ctrl-C is to end a
// wait.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  // A last line without a newline counts. Throws ProgramError kIo, and kInvalidInput for a line of
  // more than 16 MiB. Works while it waits.
  LineResult next(std::string* line, const IdleWork& work = nullptr);

 private:
  bool take_line(std::string* line);

  int descriptor_;
  bool ended_ = false;
  size_t begin_ = 0;  // of the bytes of buffer_ not yet handed out
  std::string buffer_;
};

}  // namespace cria::hosted
