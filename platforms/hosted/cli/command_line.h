// Reads the command line. The one place that knows the names and ranges of options.
#pragma once

#include <string>
#include <variant>

#include "platforms/hosted/cli/cli_options.h"

namespace cria::hosted {

// Text for standard output that --help or --version asked for.
struct HelpText {
  std::string text;
};

// Throws ProgramError kUsage for anything that docs/command_line.md does not allow.
std::variant<Command, HelpText> parse_command_line(int argc, const char* const* argv);

}  // namespace cria::hosted
