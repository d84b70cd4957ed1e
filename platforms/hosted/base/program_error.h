// How a program fails: an exit code and one line for people.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "platforms/hosted/base/output_file.h"

namespace cria::hosted {

// Of both programs; cria-convert never answers the last two.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,
  kInvalidInput = 3,   // the input is invalid or unsupported
  kIo = 4,             // reading or writing failed
  kMemory = 5,         // the memory there is does not suffice
  kIncomplete = 6,     // what was asked for was begun and not finished
  kInterrupted = 130,  // Ctrl-C ended the command, as shells report it
};

// Thrown anywhere in a program and printed by its main as "<program>: error: <message>". The
// message is one line: where, what, what to do.
class ProgramError : public std::exception {
 public:
  ProgramError(ExitCode code, std::string message) : code_(code), message_(std::move(message)) {}
  [[nodiscard]] ExitCode code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ExitCode code_;
  std::string message_;
};

// What a failed output becomes: kInvalidInput where its path is to blame, else kIo.
ProgramError program_error_of(const OutputError& error);

// Throws "<where>: <doing>: <system_error_text of error_number><advice>" with kIo.
[[noreturn]] void throw_system_error(int error_number, const std::string& where,
                                     const std::string& doing, const char* advice = "");

}  // namespace cria::hosted
