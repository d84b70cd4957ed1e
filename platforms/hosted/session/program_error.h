// How a command of the cria program fails: an exit code and one line for people.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <cria.h>
#include "platforms/hosted/base/output_file.h"

namespace cria::hosted {

enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,
  kBadInput = 3,       // the input is invalid or unsupported
  kIo = 4,             // reading or writing failed
  kMemory = 5,         // the memory there is does not suffice
  kInterrupted = 130,  // Ctrl-C ended the command, as shells report it
};

// Thrown anywhere in platforms/hosted and printed by run_program as
// "cria: error: <message>". The message is one line: where, what, what to do.
class ProgramError : public std::exception {
 public:
  ProgramError(ExitCode code, std::string message) : code_(code), message_(std::move(message)) {}
  ExitCode code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ExitCode code_;
  std::string message_;
};

// The exit code that a status of the runtime becomes.
ExitCode exit_code_of(cria_status status);

// Throws the ProgramError of a failed status; where names the file it is about.
[[noreturn]] void throw_status(cria_status status, const std::string& where);

// Throws unless status is CRIA_OK.
void check_status(cria_status status, const std::string& where);

// What a failed output becomes: kBadInput where its path is to blame, else kIo.
ProgramError program_error_of(const posix::OutputError& error);

// Throws "<where>: <doing>: <the system's message for error_number>" with kIo.
[[noreturn]] void throw_system_error(int error_number, const std::string& where,
                                     const std::string& doing);

}  // namespace cria::hosted
