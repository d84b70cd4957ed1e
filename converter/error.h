// The one exception of the converter: a line for the user and the exit code of design section 3.
#pragma once

#include <stdexcept>
#include <string>

namespace cria::converter {

enum class ExitCode : int { kDone = 0, kUsage = 2, kInvalidInput = 3, kIo = 4, kMemory = 5 };

// what() is one line: what is wrong, where, what to do.
class ConvertError : public std::runtime_error {
 public:
  ConvertError(ExitCode code, const std::string& line) : std::runtime_error(line), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace cria::converter
