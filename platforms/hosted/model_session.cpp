#include "platforms/hosted/model_session.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "platforms/hosted/cpu.h"
#include "platforms/hosted/print_format.h"
#include "platforms/hosted/program_error.h"
#include "platforms/hosted/terminal.h"

namespace cria::hosted {
namespace {

cria_config config_with_needs(const CommonOptions& options, const ModelFile& file,
                              const SessionNeeds& needs) {
  cria_config config = config_for(options, file);
  if (options.context == 0) {
    const uint32_t wanted = std::min(needs.min_context, file.info().max_context);
    config.context = std::max(file.info().planned_context, wanted);
  }
  if (needs.max_text_bytes > std::numeric_limits<uint32_t>::max()) {
    throw ProgramError(ExitCode::kBadInput, "the text is longer than 4 GiB; cut it into parts");
  }
  // Never below the runtime's own default, so that the plan does not depend on short texts.
  const uint64_t by_context = std::min<uint64_t>(uint64_t{4} * config.context, 1 << 26);
  const uint64_t usual = std::max<uint64_t>(by_context, 1024);
  config.max_text_bytes =
      needs.max_text_bytes > usual ? static_cast<uint32_t>(needs.max_text_bytes) : 0;
  config.skip_checksums = needs.trust_weights ? 1 : 0;
  return config;
}

}  // namespace

cria_model_info inspect_file(const cria_source& source, const std::string& path) {
  cria_model_info info = {};
  const cria_status status = cria_inspect(&source, &info);
  if (info.refused != nullptr) {
    throw ProgramError(exit_code_of(status), path + ": " + cria_status_message(status) + ": " +
                                                 info.refused + "; convert the checkpoint again");
  }
  check_status(status, path);
  return info;
}

ModelFile::ModelFile(const std::string& path, Mapping mapping) : path_(path), file_(path, mapping) {
  // Read rather than mapped: few bytes, and a file that shrinks meanwhile is only an error.
  info_ = inspect_file(file_.copying_source(), path_);
}

cria_config config_for(const CommonOptions& options, const ModelFile& file) {
  cria_config config = {};
  config.context = options.context;
  config.n_threads = options.n_threads != 0 ? options.n_threads : default_threads();
  config.prefill_chunk = options.prefill_chunk;
  config.kv_format = options.kv_format;
  config.backend = options.backend;
  config.isa_mask = options.isa_mask != 0 ? options.isa_mask : cpu_isas();
  config.source_is_mapped = file.is_mapped() ? 1 : 0;
  return config;
}

cria_memory_plan plan_for(const ModelFile& file, const cria_config& config) {
  if (config.context > file.info().max_context) {
    throw ProgramError(ExitCode::kUsage,
                       text_of("%s: --context %u is more than the %u positions of the model",
                               file.path().c_str(), config.context, file.info().max_context));
  }
  cria_memory_plan plan = {};
  check_status(cria_memory_required(&file.info(), &config, &plan), file.path());
  return plan;
}

void check_is_inspected(const ModelFile& file, const cria_session* session) {
  if (cria_vocab_size(session) == file.info().vocab_size) return;
  throw ProgramError(ExitCode::kIo,
                     file.path() + ": became another model while it was opened; try again");
}

ModelSession::ModelSession(const CommonOptions& options, const SessionNeeds& needs)
    : started_seconds_(monotonic_seconds()),
      file_(options.model_path, options.mapping),
      config_(config_with_needs(options, file_, needs)),
      plan_(plan_for(file_, config_)),
      arena_(plan_.total),
      pool_(config_.n_threads) {
  config_.parallel_for = pool_.hook();
  config_.parallel_context = pool_.context();
  const cria_source source = file_.source();
  check(cria_open(arena_.data(), arena_.size_bytes(), &source, &config_, &session_));
  check_is_inspected(file_, session_);
  open_seconds_ = monotonic_seconds() - started_seconds_;
  if (options.verbose) {
    print_notice(
        text_of("%s: backend %s, %s kernels, %u thread%s, %u positions, %s of memory "
                "and %s of the file in place, open after %.2f s",
                path().c_str(), cria_backend_name(session_), cria_isa_name(session_),
                config_.n_threads, config_.n_threads == 1 ? "" : "s", cria_context(session_),
                megabytes(plan_.total).c_str(), megabytes(plan_.in_place).c_str(), open_seconds_));
  }
}

void ModelSession::check(cria_status status) const { check_status(status, path()); }

void ModelSession::check_output(const std::string& path) const {
  struct stat output = {};
  struct stat model = {};
  if (::stat(path.c_str(), &output) != 0 || ::stat(this->path().c_str(), &model) != 0) return;
  if (output.st_dev != model.st_dev || output.st_ino != model.st_ino) return;
  throw ProgramError(ExitCode::kUsage, path + ": is the model itself; give another file name");
}

void ModelSession::need_tokenizer() const {
  if (info().has_tokenizer == 0) throw_status(CRIA_NO_TOKENIZER, path());
}

}  // namespace cria::hosted
