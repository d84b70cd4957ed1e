// cria verify: every checksum, every byte between two parts and every rule of a file.
#include <unistd.h>

#include <cstdint>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/progress_line.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/mapped_file.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

int show_progress(void* context, uint64_t done, uint64_t total) {
  static_cast<ProgressLine*>(context)->update(done, total, "");
  return 0;
}

}  // namespace

ExitCode run_command(const VerifyOptions& options) {
  MappedFile file(options.model_path, Mapping::kNever);
  const cria_source source = file.copying_source();
  const cria_model_info info = inspect_file(source, options.model_path);
  size_t scratch_bytes = 0;
  check_status(cria_verify_required(&info, &scratch_bytes), options.model_path);
  const ArenaMemory scratch(scratch_bytes);
  uint64_t bad_offset = 0;
  cria_status status = CRIA_OK;
  {
    ProgressLine progress("verifying");
    status = cria_verify(&source, scratch.data(), scratch.size_bytes(), &show_progress, &progress,
                         &bad_offset);
  }
  if (status == CRIA_CORRUPT || status == CRIA_INVALID_MODEL) {
    const char* const what = status == CRIA_CORRUPT
                                 ? "the file is damaged near byte %llu; copy or convert it again"
                                 : "the file breaks a rule of its format in the part at byte %llu; "
                                   "convert the checkpoint again";
    throw ProgramError(
        exit_code_of(status),
        options.model_path + ": " + text_of(what, static_cast<unsigned long long>(bad_offset)));
  }
  check_status(status, options.model_path);
  TextStream out(STDOUT_FILENO);
  out.put(text_of("%s: good, %s bytes checked\n", options.model_path.c_str(),
                  grouped_digits(file.size_bytes()).c_str()));
  out.flush();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
