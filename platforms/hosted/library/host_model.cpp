#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include <cria_calls.h>
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/thread_pool.h"
#include "platforms/hosted/chat/chat_refusal.h"
#include "platforms/hosted/chat/conversation.h"
#include "platforms/hosted/chat/conversation_json.h"
#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/library/cria_host.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/json_problem.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/status_error.h"
#include "platforms/hosted/session/tool_rounds.h"

namespace cria::hosted {
namespace {

using Json = nlohmann::json;

// Longest text that a conversation in this context asks for; what is longer does not fit it.
uint32_t text_bytes_for(uint32_t context) {
  constexpr uint64_t kBytesPerPosition = 8;
  return static_cast<uint32_t>(std::clamp<uint64_t>(kBytesPerPosition * context, 4096, 1U << 31));
}

CommonOptions common_options(const char* path, const cria_host_options& options) {
  CommonOptions common;
  common.model_path = path;
  common.n_threads = options.n_threads;
  common.context = options.context;
  common.prefill_chunk = options.prefill_chunk;
  common.isa_mask = options.isa_mask;
  common.backend = static_cast<cria_backend>(options.backend);
  if (options.kv_format != 0) common.kv_format = static_cast<cria_kv_format>(options.kv_format - 1);
  common.mapping = options.never_map != 0 ? Mapping::kNever : Mapping::kWhenPossible;
  return common;
}

// A host, and what it holds.
class OpenModel : public cria_host {
 public:
  OpenModel(const CommonOptions& options, uint32_t max_text_bytes)
      : cria_host{},
        file_(options.model_path, options.mapping),
        config_(config_with(options, max_text_bytes)),
        plan_(plan_for(file_, config_)),
        arena_(plan_.total),
        pool_(config_.n_threads, FewerThreads::kAreRefused) {
    config_.parallel_for = pool_.hook();
    config_.parallel_context = pool_.context();
    config_.step_progress = &on_step;
    config_.progress_context = this;
    const cria_source source = file_.source();
    cria_instance opened = {};
    const auto of_model = static_cast<size_t>(plan_.model.total);
    arena_.take_pages(of_model, &pool_);
    check_status(cria_open(arena_.data(), arena_.size_bytes(), &source, &config_, &opened),
                 file_.path());
    arena_.allow_merging(of_model);
    check_is_inspected(file_, opened.model);
    model = opened.model;
    session = opened.session;
    workspace = opened.workspace;
    n_threads = config_.n_threads;
    is_mapped = file_.is_mapped() ? 1 : 0;
    info = file_.info();
    plan = plan_;
  }

  void cancel(bool is_cancelled) { is_cancelled_.store(is_cancelled); }

 private:
  cria_config config_with(const CommonOptions& options, uint32_t max_text_bytes) const {
    cria_config config = config_for(options, file_);
    if (config.context == 0) config.context = file_.info().planned_context;
    config.max_text_bytes = max_text_bytes != 0 ? max_text_bytes : text_bytes_for(config.context);
    return config;
  }
  static int on_step(void* context, uint64_t, uint64_t) {
    return static_cast<OpenModel*>(context)->is_cancelled_.load(std::memory_order_relaxed) ? 1 : 0;
  }

  ModelFile file_;
  cria_config config_;
  cria_memory_plan plan_;
  ArenaMemory arena_;
  ThreadPool pool_;
  std::atomic<bool> is_cancelled_ = false;
};

// Throws ConversationError.
Conversation conversation_of(std::string_view text) {
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) throw ConversationError("messages", "is no object of JSON");
  Conversation said;
  read_messages(root.value("messages", Json()), raw_path(text, "messages"), &said);
  read_tools(root.value("tools", Json()), raw_path(text, "tools"), &said);
  read_template_args(root.value("chat_template_kwargs", Json()), &said);
  return said;
}

// A conversation, and what it is made of.
class OwnedConversation : public cria_conversation {
 public:
  explicit OwnedConversation(Conversation said)
      : cria_conversation{}, said_(std::move(said)), view_(said_, CRIA_TURN_OPENED) {
    static_cast<cria_conversation&>(*this) = *view_.get();
  }

 private:
  const Conversation said_;
  const ConversationView view_;
};

void copy_text(const std::string& from, char* text, size_t capacity) {
  text[from.copy(text, capacity - 1)] = 0;
}

void tell(cria_status status, ExitCode code, const char* message, cria_host_problem* problem) {
  if (problem == nullptr) return;
  *problem = {};
  problem->status = status;
  problem->exit_code = static_cast<int32_t>(code);
  std::strncpy(problem->message, message, sizeof(problem->message) - 1);
}

bool is_valid(const char* path, const cria_host_options* options) {
  return path != nullptr && options != nullptr && options->backend <= CRIA_BACKEND_XNNPACK &&
         options->kv_format <= CRIA_KV_K8V4 + 1 &&
         std::all_of(std::begin(options->reserved), std::end(options->reserved),
                     [](uint8_t byte) { return byte == 0; });
}

}  // namespace
}  // namespace cria::hosted

using cria::hosted::ExitCode;
using cria::hosted::OpenModel;
using cria::hosted::OwnedConversation;

cria_host* cria_host_open(const char* path, const cria_host_options* options,
                          cria_host_problem* problem) {
  using cria::hosted::tell;
  if (!cria::hosted::is_valid(path, options)) {
    tell(CRIA_INVALID_ARGUMENT, ExitCode::kUsage, cria_status_message(CRIA_INVALID_ARGUMENT),
         problem);
    return nullptr;
  }
  try {
    tell(CRIA_OK, ExitCode::kDone, "", problem);
    return new OpenModel(cria::hosted::common_options(path, *options), options->max_text_bytes);
  } catch (const cria::hosted::StatusError& error) {
    tell(error.status(), error.code(), error.what(), problem);
  } catch (const cria::hosted::ProgramError& error) {
    tell(CRIA_OK, error.code(), error.what(), problem);
  } catch (const std::bad_alloc&) {
    tell(CRIA_OK, ExitCode::kMemory, "out of memory", problem);
  } catch (const std::exception& error) {
    tell(CRIA_OK, ExitCode::kIo, error.what(), problem);
  }
  return nullptr;
}

void cria_host_close(cria_host* host) { delete static_cast<OpenModel*>(host); }

cria_host_calls cria_host_calls_taken(cria_host* host) {
  size_t n_bytes = 0;
  const void* const format = host != nullptr ? cria_call_format(host->model, &n_bytes) : nullptr;
  if (format == nullptr || (cria_calls_written(format, n_bytes) & CRIA_WRITES_CALLS) == 0) {
    return CRIA_HOST_NO_CALLS;
  }
  try {
    const auto rounds = cria::hosted::tool_rounds_of(host->info, host->workspace);
    if (!rounds.are_taken) return CRIA_HOST_NO_CALLS;
    return rounds.of_several ? CRIA_HOST_ANY_CALLS : CRIA_HOST_ONE_CALL;
  } catch (const std::bad_alloc&) {
    return CRIA_HOST_NO_CALLS;
  }
}

const cria_conversation* cria_host_conversation_read(cria_host* host, const char* json,
                                                     size_t n_bytes, cria_host_problem* problem) {
  using cria::hosted::tell;
  if (host == nullptr || json == nullptr) {
    tell(CRIA_INVALID_ARGUMENT, ExitCode::kUsage, cria_status_message(CRIA_INVALID_ARGUMENT),
         problem);
    return nullptr;
  }
  try {
    tell(CRIA_OK, ExitCode::kDone, "", problem);
    cria::hosted::Conversation said = cria::hosted::conversation_of({json, n_bytes});
    const auto refusal = cria::hosted::complete_for(host->workspace, &said, CRIA_TURN_OPENED);
    if (!refusal) return new OwnedConversation(std::move(said));
    tell(CRIA_REFUSED_BY_TEMPLATE, ExitCode::kInvalidInput, refusal->text.c_str(), problem);
  } catch (const cria::hosted::ConversationError& error) {
    tell(CRIA_OK, ExitCode::kUsage, error.what(), problem);
  } catch (const std::bad_alloc&) {
    tell(CRIA_OK, ExitCode::kMemory, "out of memory", problem);
  } catch (const std::exception& error) {
    tell(CRIA_OK, ExitCode::kIo, error.what(), problem);
  }
  return nullptr;
}

void cria_host_conversation_close(const cria_conversation* conversation) {
  delete static_cast<const OwnedConversation*>(conversation);
}

void cria_host_call_problem_text(const cria_call_problem* problem, const char* tools,
                                 size_t n_tools, char* text, size_t capacity) {
  cria::hosted::copy_text(cria::hosted::text_of_problem(*problem, {tools, n_tools}), text,
                          capacity);
}

void cria_host_json_problem_text(const cria_json_problem* problem, const char* schema,
                                 size_t n_schema, char* text, size_t capacity) {
  cria::hosted::copy_text(cria::hosted::text_of_problem(*problem, {schema, n_schema}), text,
                          capacity);
}

void cria_host_cancel(cria_host* host, int is_cancelled) {
  if (host != nullptr) static_cast<OpenModel*>(host)->cancel(is_cancelled != 0);
}
