#include "platforms/hosted/serve/server.h"

#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <future>
#include <optional>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/prefixes/prefix_store.h"
#include "platforms/hosted/serve/api.h"
#include "platforms/hosted/serve/http_server.h"
#include "platforms/hosted/serve/text_service.h"
#include "platforms/hosted/session/arena_memory.h"

namespace cria::hosted {
namespace {

constexpr uint32_t kUsualSessions = 4;
constexpr double kPatienceSeconds = 10.0;  // for answers that are being made
constexpr int kDrainSeconds = 5;           // then for clients to take them

// What short requests and answers take is given back, however large the largest was.
void keep_heap_small() {
#ifdef M_ARENA_MAX
  constexpr int kLargeBytes = 64 << 10;
  ::mallopt(M_ARENA_MAX, 2);
  ::mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  ::mallopt(M_TRIM_THRESHOLD, kLargeBytes);
#endif
}

// Four sessions, or as many as leave others a quarter of the memory of the machine or container. Of
// what stays in the file that counts which a token reads: the rest of the experts comes and goes.
uint32_t sessions_that_fit(const CommonOptions& common) {
  const ModelFile file(common.model_path, common.mapping);
  const uint64_t most = usable_memory_bytes() / 4 * 3;
  uint32_t n_sessions = kUsualSessions;
  for (; n_sessions > 1; --n_sessions) {
    cria_config config = config_for(common, file);
    config.max_entries = n_sessions;
    const cria_memory_plan plan = plan_for(file, config);
    const uint64_t text = TextService::bytes_for(file, config);
    const uint64_t total = total_bytes(plan, n_sessions);
    const uint64_t in_place = std::min(plan.in_place, file.info().active_bytes);
    if (total < most && in_place < most && text < most && total + in_place + text < most) break;
  }
  return n_sessions;
}

// A prompt has a token at least, and so has what is answered.
void check_context(const CommonOptions& common) {
  constexpr uint32_t kLeast = 2;
  const ModelFile file(common.model_path, common.mapping);
  const uint32_t context = common.context != 0 ? common.context : file.info().planned_context;
  if (context >= kLeast) return;
  throw ProgramError(ExitCode::kUsage,
                     text_of("--context %u has no room for a prompt and an answer; the least is %u",
                             context, kLeast));
}

std::string name_of_file(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

// Of a file; 0: it is gone.
int64_t modified_ns(const std::string& path) {
  constexpr int64_t kNsOfSecond = 1'000'000'000;
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return kNsOfSecond * status.st_mtim.tv_sec + status.st_mtim.tv_nsec;
}

uint32_t first_end_token(const cria_model* model) {
  for (uint32_t token = 0; token < cria_vocab_size(model); ++token) {
    if (cria_is_end_token(model, token) != 0) return token;
  }
  return CRIA_NO_TOKEN;
}

void tell_budget(const MemoryBudget& budget, const ModelSession& model,
                 void (*tell)(const std::string& line)) {
  const auto row = [tell](const std::string& what, uint64_t n_bytes) {
    tell(text_of("%-34s %10s", what.c_str(), megabytes(n_bytes).c_str()));
  };
  row("model", budget.model);
  row(text_of("%zu session%s of %u positions", model.sessions().size(),
              model.sessions().size() == 1 ? "" : "s", cria_context(model.session())),
      budget.sessions);
  row("workspaces", budget.workspaces);
  row("JSON", budget.json);
  row("total", budget.total());
  row("of the file in place", budget.in_place);
}

}  // namespace

ExitCode serve(const CommonOptions& common, const ServerOptions& options,
               void (*tell)(const std::string& line), void (*log)(const std::string& line)) {
  keep_heap_small();
  check_context(common);
  const uint32_t n_sessions =
      options.n_sessions != 0 ? options.n_sessions : sessions_that_fit(common);
  const ModelSession model(
      common, {.n_sessions = n_sessions, .is_resident = true, .waits_for_large_pages = true});
  TextService text(model);
  std::optional<PrefixStore> prefixes;
  if (!options.prefix_folder.empty()) {
    prefixes.emplace(model, options.prefix_folder, options.prefix_bytes, log);
  }
  Engine engine(model, {.max_waiting = options.max_waiting,
                        .prefixes = prefixes ? &*prefixes : nullptr,
                        .log = log});
  const cria_memory_plan& plan = model.plan();
  const MemoryBudget budget = {
      .model = plan.model.total,
      .sessions = n_sessions * plan.session.total,
      .workspaces = std::max(plan.workspace.total, plan.loading) + text.n_bytes(),
      .json = engine.json_bytes(),
      .in_place = plan.in_place};
  const OrderContext context = {
      .model = model,
      .text = &text,
      .engine = &engine,
      .usual = options.usual,
      .model_name = options.alias.empty() ? name_of_file(model.path()) : options.alias,
      .n_sessions = n_sessions,
      .most_prompts = n_sessions + options.max_waiting};
  Api api({.context = context,
           .chat_template = options.chat_template,
           .has_metrics = options.has_metrics,
           .budget = budget,
           .started_s = unix_seconds(),
           .modified_ns = modified_ns(model.path()),
           .end_token = first_end_token(model.model())},
          {.host = options.host, .origins = options.origins, .keys = options.keys});
  HttpServer server({.host = options.host, .port = options.port, .log = log}, &api);
  api.set_network(&server);
  // The thread that stops is made now: when it is needed there may be no memory for one.
  std::future<void> stopping;
  std::promise<void> stop_order;
  stopping = std::async(std::launch::async, [&, stopped = stop_order.get_future()]() mutable {
    stopped.get();
    engine.stop(kPatienceSeconds);
    server.finish(kDrainSeconds);
  });
  tell_budget(budget, model, tell);
  if (prefixes) {
    const PrefixStore::Counts counts = prefixes->counts();
    const bool keeps_none =
        model.info().keeps_blocks != 0 && model.config().n_snapshots == CRIA_NO_SNAPSHOTS;
    tell(text_of("prefixes on the disk: %zu of this model; %s of %s%s", counts.n_prefixes,
                 megabytes(counts.n_bytes).c_str(), megabytes(prefixes->most_bytes()).c_str(),
                 keeps_none ? "; --snapshots 0: no more are kept" : ""));
  }
  tell("listening on " + server.address());
  server.run([&] {
    stop_order.set_value();
    server.stop_accepting();
    log("stopping: what is being answered may go on for 10 s");
  });
  stopping.wait();
  api.stop();
  engine.stop(0.0);
  return ExitCode::kDone;
}

}  // namespace cria::hosted
