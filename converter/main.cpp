// cria-convert: the command line around converter/convert.h.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "converter/convert.h"
#include "converter/options.h"
#include "converter/progress.h"
#include "converter/report.h"
#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/base/standard_descriptors.h"
#include "platforms/hosted/base/system_error.h"
#include "platforms/hosted/base/terminal.h"

namespace {

using cria::hosted::ExitCode;
using cria::hosted::ProgramError;

int fail(ExitCode code, const std::string& line) {
  cria::hosted::write_stderr("cria-convert: error: " + cria::hosted::printable(line) + "\n");
  return static_cast<int>(code);
}

constexpr const char* kNoMemory =
    "out of memory; free some, raise the limit, or give fewer --threads";

// Unwinding would allocate: JSON is taken apart with the help of a list, messages are texts.
[[noreturn]] void end_without_memory() {
  cria::hosted::remove_temporary_files();
  for (const char* text : {"cria-convert: error: ", kNoMemory, "\n"}) {
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  }
  std::_Exit(static_cast<int>(ExitCode::kMemory));
}

// To standard output; a reader that went away is no error.
void print(const std::string& text) {
  std::signal(SIGPIPE, SIG_IGN);
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0 && errno != EPIPE) {
    throw ProgramError(ExitCode::kIo, "standard output: cannot be written: " +
                                          cria::hosted::system_error_text(errno));
  }
}

int run(int argc, const char* const* argv) {
  const std::optional<cria::converter::Options> options =
      cria::converter::parse_options(argc, argv);
  if (!options) return static_cast<int>(ExitCode::kDone);
  cria::converter::Progress progress(options->verbosity);
  const cria::converter::ConversionReport report = cria::converter::convert(*options, &progress);
  if (options->output.empty()) {
    print(cria::converter::found_text(report));
  } else {
    progress.say(cria::converter::summary_text(report));
  }
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_new_handler(&end_without_memory);
  try {
    cria::hosted::occupy_standard_descriptors();
    cria::hosted::remove_temporary_files_on_signals();
    return run(argc, argv);
  } catch (const ProgramError& e) {
    return fail(e.code(), e.what());
  } catch (const std::bad_alloc&) {  // of a library with memory of its own
    return fail(ExitCode::kMemory, kNoMemory);
  } catch (const std::exception& e) {
    return fail(ExitCode::kIo, e.what());
  }
}
