// A program that answers lines with lines: started without an environment, ended when it takes too
// long or says too much.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::converter {

struct AnswerLimits {
  unsigned seconds;   // for the answers to one question, by the clock
  size_t line_bytes;  // of one answer
};

class LineProgram {
 public:
  // command: an absolute path, and arguments. What it says of errors nobody sees. Throws
  // ProgramError (kIo) when no process can be made.
  LineProgram(const std::vector<std::string>& command, const AnswerLimits& limits);
  ~LineProgram();
  LineProgram(const LineProgram&) = delete;
  LineProgram& operator=(const LineProgram&) = delete;

  // Writes lines and reads n_answers lines, each without its end. nullopt: it ended or kept no
  // limit, and answers nothing more.
  [[nodiscard]] std::optional<std::vector<std::string>> ask(std::string_view lines,
                                                            size_t n_answers);

 private:
  [[nodiscard]] bool exchange(std::string_view* lines, int milliseconds);

  AnswerLimits limits_;
  int socket_ = -1;
  pid_t process_ = -1;
  std::string said_;  // of the line that has no end yet
};

}  // namespace cria::converter
