#include "platforms/hosted/base/program_error.h"

#include <cerrno>
#include <cstring>

namespace cria::hosted {

ProgramError program_error_of(const OutputError& error) {
  const bool is_path = error.kind() == OutputError::Kind::kPath;
  return {is_path ? ExitCode::kInvalidInput : ExitCode::kIo, error.what()};
}

void throw_system_error(int error_number, const std::string& where, const std::string& doing) {
  const bool is_full = error_number == ENOSPC || error_number == EDQUOT;
  throw ProgramError(ExitCode::kIo, where + ": " + doing + ": " + std::strerror(error_number) +
                                        (is_full ? "; free some space or write elsewhere" : ""));
}

}  // namespace cria::hosted
