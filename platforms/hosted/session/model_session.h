// A model file opened for running: file, plan, memory, threads, then model, session and workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cria.h>
#include "platforms/hosted/base/thread_pool.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/mapped_file.h"
#include "platforms/hosted/session/session_options.h"

namespace cria::hosted {

// What a source says it holds. Throws the ProgramError of a file that is refused, with the name of
// the field or rule that it breaks.
cria_model_info inspect_file(const cria_source& source, const std::string& path);

// A file and what it says it holds; no weights are read.
class ModelFile {
 public:
  // Throws ProgramError for a file that cannot be opened or is no model.
  ModelFile(const std::string& path, Mapping mapping);

  const std::string& path() const { return path_; }
  const cria_model_info& info() const { return info_; }
  bool is_mapped() const { return file_.is_mapped(); }
  cria_source source() { return file_.source(); }
  cria_source copying_source() { return file_.copying_source(); }

 private:
  std::string path_;
  MappedFile file_;
  cria_model_info info_ = {};
};

// The runtime's configuration for these options, without threads' hook.
cria_config config_for(const CommonOptions& options, const ModelFile& file);

// Bytes of memory for a model, so many sessions and one workspace in one block.
uint64_t total_bytes(const cria_memory_plan& plan, uint32_t n_sessions);

// The plan, or a ProgramError that says which option does not fit the model.
cria_memory_plan plan_for(const ModelFile& file, const cria_config& config);

// Throws when a file that was replaced after it was inspected gave a session of another vocabulary,
// by which logits are laid out.
void check_is_inspected(const ModelFile& file, const cria_model* model);

// What a command needs beyond the common options.
struct SessionNeeds {
  uint32_t min_context = 0;     // raises the planned context when --context is not given
  uint64_t max_text_bytes = 0;  // longest text encoded in one piece; 0: the runtime's default
  bool trust_weights = false;   // leave weights that stay in the file unread
  bool text_only = false;       // only tokenizer and template: no weights, no session
  uint32_t n_sessions = 1;
  bool is_resident = false;  // take all memory at once, not as it is used
  // Large pages for all memory, however long the system takes to give them: steady speed counts,
  // not the start.
  bool waits_for_large_pages = false;
};

enum class NextStep { kGoOn, kStop };

// Is told how far a step is, between its layers and on the thread that called it, and decides
// whether it goes on; where nobody watches, Ctrl-C does.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  virtual NextStep on_step(uint64_t done, uint64_t total) = 0;
};

class ModelSession {
 public:
  // Opens; prints what is used when options.verbose. Throws ProgramError.
  ModelSession(const CommonOptions& options, const SessionNeeds& needs);
  ModelSession(const ModelSession&) = delete;
  ModelSession& operator=(const ModelSession&) = delete;

  const cria_model* model() const { return model_; }
  cria_session* session() const { return sessions_.empty() ? nullptr : sessions_[0]; }
  const std::vector<cria_session*>& sessions() const { return sessions_; }
  cria_workspace* workspace() const { return workspace_; }
  const std::string& path() const { return file_.path(); }
  const cria_model_info& info() const { return file_.info(); }

  // What to do about a text that the context of a session does not hold.
  const char* advice_on_length() const {
    return can_have_more_context() ? "shorten it or raise --context"
                                   : "shorten it, the model takes no more";
  }
  bool can_have_more_context() const { return cria_context(session()) < info().max_context; }
  const cria_memory_plan& plan() const { return plan_; }
  const cria_config& config() const { return config_; }
  ModelFile& file() { return file_; }
  double open_seconds() const { return open_seconds_; }
  // Null: nobody.
  void watch_steps(StepWatcher* watcher) const { watcher_ = watcher; }

  // Throws the ProgramError of a failed status, naming the file.
  void check(cria_status status) const;
  // Throws kInvalidInput when the file has no tokenizer.
  void need_tokenizer() const;
  // Throws kUsage when writing to path would replace the model's file.
  void check_output(const std::string& path) const;

 private:
  static int on_step(void* context, uint64_t done, uint64_t total);
  void open(const SessionNeeds& needs);

  double started_seconds_;
  ModelFile file_;
  cria_config config_;
  cria_memory_plan plan_;
  ArenaMemory arena_;
  ThreadPool pool_;
  cria_model* model_ = nullptr;
  std::vector<cria_session*> sessions_;
  cria_workspace* workspace_ = nullptr;
  double open_seconds_ = 0.0;
  mutable StepWatcher* watcher_ = nullptr;  // not of the model
};

}  // namespace cria::hosted
