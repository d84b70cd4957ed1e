// What a status of the runtime becomes: an exit code, a line for people, a ProgramError.
#pragma once

#include <string>
#include <utility>

#include <cria.h>
#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {

ExitCode exit_code_of(cria_status status);

// A ProgramError that a status is behind.
class StatusError : public ProgramError {
 public:
  StatusError(cria_status status, std::string message)
      : ProgramError(exit_code_of(status), std::move(message)), status_(status) {}
  [[nodiscard]] cria_status status() const { return status_; }

 private:
  cria_status status_;
};

// Throws the StatusError of a failed status; where names the file it is about.
[[noreturn]] void throw_status(cria_status status, const std::string& where);
// The same with what to do, where that is known better than from the status.
[[noreturn]] void throw_status(cria_status status, const std::string& where,
                               const char* what_to_do);

// Throws unless status is CRIA_OK.
void check_status(cria_status status, const std::string& where);

}  // namespace cria::hosted
