// cria run and cria chat with --tools.
#pragma once

#include <string>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/cli/cli_options.h"

namespace cria::hosted {

// Asks one question and prints what is answered. Throws ProgramError.
ExitCode answer_with_tools(const RunOptions& options, const std::string& question);

// Lines are questions; after calls each is the result of one. Throws ProgramError.
ExitCode chat_with_tools(const ChatOptions& options);

}  // namespace cria::hosted
