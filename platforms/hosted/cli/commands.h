// The commands of the cria program. Each writes its result to standard output and everything else
// to standard error, and throws ProgramError when it fails.
#pragma once

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/cli/cli_options.h"

namespace cria::hosted {

ExitCode run_command(const InfoOptions& options);
ExitCode run_command(const VerifyOptions& options);
ExitCode run_command(const RunOptions& options);
ExitCode run_command(const ChatOptions& options);
ExitCode run_command(const BenchOptions& options);
ExitCode run_command(const TokenizeOptions& options);
ExitCode run_command(const CallsOptions& options);
ExitCode run_command(const LogitsOptions& options);
ExitCode run_command(const EmbedOptions& options);
ExitCode run_command(const EvalOptions& options);
ExitCode run_command(const ServeOptions& options);

// The whole program: command line, signals, errors. Returns the exit code.
int run_program(int argc, const char* const* argv);

}  // namespace cria::hosted
