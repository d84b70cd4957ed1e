#include <unistd.h>

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <variant>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/base/standard_descriptors.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/cli/command_line.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/interrupt.h"

namespace cria::hosted {
namespace {

ExitCode run(int argc, const char* const* argv) {
  const std::variant<Command, HelpText> parsed = parse_command_line(argc, argv);
  if (const auto* help = std::get_if<HelpText>(&parsed)) {
    TextStream out(STDOUT_FILENO);
    out.put(help->text);
    out.flush();
    return ExitCode::kDone;
  }
  return std::visit([](const auto& options) { return run_command(options); },
                    std::get<Command>(parsed));
}

// One line, whatever the names of files in it are.
ExitCode report(ExitCode code, const char* message) {
  write_stderr("cria: error: " + printable(message) + "\n");
  return code;
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  occupy_standard_descriptors();
  install_program_signals();
  ExitCode code = ExitCode::kDone;
  try {
    code = run(argc, argv);
  } catch (const ProgramError& error) {
    code = report(error.code(), error.what());
  } catch (const OutputError& error) {
    code = report(program_error_of(error).code(), error.what());
  } catch (const std::bad_alloc&) {
    code = report(ExitCode::kMemory,
                  text_of("out of memory; %s or free memory", kLowerContext).c_str());
  } catch (const std::system_error& error) {
    const bool lacks_thread = error.code() == std::errc::resource_unavailable_try_again;
    code = lacks_thread ? report(ExitCode::kMemory,
                                 "cannot start a thread; free memory, or raise ulimit -v or -u")
                        : report(ExitCode::kInvalidInput, error.what());
  } catch (const std::exception& error) {
    code = report(ExitCode::kInvalidInput, error.what());
  }
  finish_stderr();
  return static_cast<int>(code);
}

}  // namespace cria::hosted
