#include "platforms/hosted/base/program_error.h"

#include "platforms/hosted/base/system_error.h"

namespace cria::hosted {

ProgramError program_error_of(const OutputError& error) {
  const bool is_path = error.kind() == OutputError::Kind::kPath;
  return {is_path ? ExitCode::kInvalidInput : ExitCode::kIo, error.what()};
}

void throw_system_error(int error_number, const std::string& where, const std::string& doing,
                        const char* advice) {
  throw ProgramError(ExitCode::kIo,
                     where + ": " + doing + ": " + system_error_text(error_number) + advice);
}

}  // namespace cria::hosted
