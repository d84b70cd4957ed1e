// What a status of the runtime becomes: an exit code, a line for people, a ProgramError.
#pragma once

#include <string>

#include <cria.h>
#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {

ExitCode exit_code_of(cria_status status);

// Throws the ProgramError of a failed status; where names the file it is about.
[[noreturn]] void throw_status(cria_status status, const std::string& where);

// Throws unless status is CRIA_OK.
void check_status(cria_status status, const std::string& where);

}  // namespace cria::hosted
