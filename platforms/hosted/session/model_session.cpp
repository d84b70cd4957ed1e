#include "platforms/hosted/session/model_session.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/machine/cpu.h"
#include "platforms/hosted/session/interrupt.h"
#include "platforms/hosted/session/model_text.h"
#include "platforms/hosted/session/status_error.h"

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
    throw ProgramError(ExitCode::kInvalidInput, "the text is longer than 4 GiB; cut it into parts");
  }
  // Never below the runtime's own default, so that the plan does not depend on short texts.
  const uint64_t by_context = std::min<uint64_t>(uint64_t{4} * config.context, 1 << 26);
  const uint64_t usual = std::max<uint64_t>(by_context, 1024);
  config.max_text_bytes =
      needs.max_text_bytes > usual ? static_cast<uint32_t>(needs.max_text_bytes) : 0;
  config.skip_checksums = needs.trust_weights ? 1 : 0;
  config.text_only = needs.text_only ? 1 : 0;
  config.max_entries = needs.n_sessions;
  return config;
}

// What of a model XNNPACK takes not; empty where nothing says so.
std::string not_for_xnnpack(const cria_model_info& info) {
  cria_matrix_kind kind = {};
  for (uint32_t i = 0; cria_find_matrix_kind(&info, i, &kind) == CRIA_OK; ++i) {
    const cria_number_format f = kind.number_format;
    if (f == CRIA_INT4NL || f == CRIA_INT8G32 || f == CRIA_BIT1 || f == CRIA_BIT2) {
      return cria_number_format_name(f);
    }
  }
  return info.signed_scales != 0 ? "int4 with negative scales" : "";
}

// For who lacks memory: options without which more of the model stays in the file.
std::string advice_on_memory(const CommonOptions& options, const ModelFile& file,
                             cria_config config) {
  const char* const copies = options.mapping == Mapping::kNever ? "--no-mmap" : "";
  const char* const packs = options.backend == CRIA_BACKEND_XNNPACK ? "--backend xnnpack" : "";
  const char* const both = *copies != 0 && *packs != 0 ? " and " : "";
  cria_memory_plan plan = {};
  config.source_is_mapped = 1;
  config.backend = CRIA_BACKEND_EXACT;
  if (*copies == 0 && *packs == 0) return kLowerContext;
  if (cria_plan(&file.info(), &config, &plan) != CRIA_OK || plan.in_place == 0) {
    return kLowerContext;
  }
  return text_of("leave out %s%s%s or %s", copies, both, packs, kLowerContext);
}

}  // namespace

cria_model_info inspect_file(const cria_source& source, const std::string& path) {
  cria_model_info info = {};
  const cria_status status = cria_inspect(&source, &info);
  if (info.refused != nullptr) {
    throw StatusError(status, path + ": " + cria_status_message(status) + ": " + info.refused +
                                  "; convert the checkpoint again");
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
  const uint32_t n_snapshots = options.n_snapshots.value_or(0);
  config.n_snapshots = options.n_snapshots == 0U ? CRIA_NO_SNAPSHOTS : n_snapshots;
  const bool keeps_floats = file.info().weight_format == CRIA_F32;
  config.kv_format = options.kv_format.value_or(keeps_floats ? CRIA_KV_F32 : CRIA_KV_INT8);
  // XNNPACK asks cpuinfo too.
  const bool is_exact = options.backend == CRIA_BACKEND_AUTO && !knows_processors();
  config.backend = is_exact ? CRIA_BACKEND_EXACT : options.backend;
  config.isa_mask = options.isa_mask != 0 ? options.isa_mask : cpu_isas();
  config.source_is_mapped = file.is_mapped() ? 1 : 0;
  return config;
}

uint64_t total_bytes(const cria_memory_plan& plan, uint32_t n_sessions) {
  uint64_t total = 0;
  const uint64_t others = plan.model.total + std::max(plan.workspace.total, plan.loading);
  if (__builtin_mul_overflow(plan.session.total, n_sessions, &total) ||
      __builtin_add_overflow(total, others, &total)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return total;
}

cria_memory_plan plan_for(const ModelFile& file, const cria_config& config) {
  if (config.context > file.info().max_context) {
    throw ProgramError(ExitCode::kUsage,
                       text_of("%s: --context %u is more than the %u positions of the model",
                               file.path().c_str(), config.context, file.info().max_context));
  }
  cria_memory_plan plan = {};
  const bool is_xnnpack = config.backend == CRIA_BACKEND_XNNPACK;
  const bool can_ask = !is_xnnpack || knows_processors();
  const cria_status status = can_ask ? cria_plan(&file.info(), &config, &plan) : CRIA_UNSUPPORTED;
  if (status == CRIA_UNSUPPORTED && is_xnnpack) {
    const std::string refused = not_for_xnnpack(file.info());
    if (!refused.empty()) {
      throw StatusError(status,
                        file.path() + ": XNNPACK does not support " + refused +
                            "; try --backend auto, or convert again with --weights int4 --scales "
                            "positive");
    }
    if (!can_ask) {
      throw StatusError(status, file.path() +
                                    ": XNNPACK needs /proc/cpuinfo, which cannot be read "
                                    "here; try --backend exact");
    }
  }
  check_status(status, file.path());
  return plan;
}

void check_is_inspected(const ModelFile& file, const cria_model* model) {
  if (cria_vocab_size(model) == file.info().vocab_size) return;
  throw ProgramError(ExitCode::kIo,
                     file.path() + ": changed to another model while it was opened; try again");
}

ModelSession::ModelSession(const CommonOptions& options, const SessionNeeds& needs)
    : started_seconds_(monotonic_seconds()),
      file_(options.model_path, options.mapping),
      config_(config_with_needs(options, file_, needs)),
      plan_(plan_for(file_, config_)),
      arena_(total_bytes(plan_, needs.n_sessions), advice_on_memory(options, file_, config_)),
      pool_(config_.n_threads, FewerThreads::kAreRefused) {
  config_.step_progress = &on_step;
  config_.progress_context = this;
  config_.parallel_for = pool_.hook();
  config_.parallel_context = pool_.context();
  open(needs);
  check_is_inspected(file_, model_);
  open_seconds_ = monotonic_seconds() - started_seconds_;
  if (options.verbose) {
    print_notice(text_of(
        "%s: backend %s, %u thread%s, %u positions, %s of memory "
        "and %s of the file in place, open after %.2f s",
        path().c_str(), kernels_text(cria_backend_name(model_), cria_isa_name(model_)).c_str(),
        config_.n_threads, config_.n_threads == 1 ? "" : "s", config_.context,
        megabytes(arena_.size_bytes()).c_str(), megabytes(plan_.in_place).c_str(), open_seconds_));
  }
}

int ModelSession::on_step(void* context, uint64_t done, uint64_t total) {
  StepWatcher* const watcher = static_cast<ModelSession*>(context)->watcher_;
  if (watcher == nullptr) return interrupted() ? 1 : 0;
  return watcher->on_step(done, total) == NextStep::kStop ? 1 : 0;
}

// Model, sessions, workspace; loading is done where the workspace will be.
void ModelSession::open(const SessionNeeds& needs) {
  auto* at = static_cast<uint8_t*>(arena_.data());
  uint8_t* const end = at + arena_.size_bytes();
  uint8_t* const of_sessions = at + plan_.model.total;
  const uint32_t n_sessions = needs.text_only ? 0 : needs.n_sessions;
  uint8_t* const of_workspace = of_sessions + n_sessions * plan_.session.total;
  const auto size = [end](const uint8_t* from) { return static_cast<size_t>(end - from); };
  const cria_source source = file_.source();
  const auto of_model = static_cast<size_t>(plan_.model.total);
  if (!needs.waits_for_large_pages) arena_.take_pages(of_model, &pool_);
  check(cria_load(at, size(at), of_workspace, size(of_workspace), &source, &config_, &model_));
  for (at = of_sessions; at < of_workspace; at += plan_.session.total) {
    check(cria_start(at, size(at), model_, &config_, &sessions_.emplace_back()));
  }
  check(cria_make_workspace(of_workspace, size(of_workspace), model_, &config_, &workspace_));
  if (!needs.waits_for_large_pages) arena_.allow_merging(of_model);
  if (needs.is_resident) arena_.make_resident();
}

void ModelSession::check(cria_status status) const {
  const bool is_length = status == CRIA_TEXT_TOO_LONG || status == CRIA_CONTEXT_FULL;
  if (is_length && session() != nullptr) throw_status(status, path(), advice_on_length());
  check_status(status, path());
}

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
