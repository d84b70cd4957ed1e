// What the engine's thread does: requests get sessions, sessions go through steps, tokens are
// drawn. It allocates for one answer at a time, and where that fails this answer ends: what all of
// them share is made at the start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <cria.h>
#include "platforms/hosted/engine/answer.h"
#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/engine/prefix_cache.h"
#include "platforms/hosted/engine/request_queue.h"
#include "platforms/hosted/engine/session_pool.h"
#include "platforms/hosted/engine/status_board.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

class EngineLoop : private StepWatcher {
 public:
  // All outlive it; queue and board are thread-safe.
  EngineLoop(const ModelSession& model, const EngineOptions& options, RequestQueue* queue,
             StatusBoard* board);
  ~EngineLoop() override;
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Returns once the queue is shut down and all requests have ended.
  void run();

 private:
  // A choice that has no session, and as many as follow it.
  struct WaitingChoice {
    std::shared_ptr<Request> request;
    uint32_t choice;
    uint32_t n_choices;
  };
  enum class StepResult { kDone, kStopped };
  struct Reader {
    Answer* answer;
    size_t n_unread;
  };

  // Whether a request is to end without more of an answer, and how.
  [[nodiscard]] bool is_unwanted(const Request& request) const;
  [[nodiscard]] static Ending unwanted_ending(const Request& request);
  // Ends those, but for those that are in a step.
  void drop_unwanted();

  // Gives idle sessions to those who wait.
  void give_sessions();
  void start(const std::shared_ptr<Request>& request, uint32_t choice);
  [[nodiscard]] cria_status check(const AnswerRequest& asked) const;
  void tell_idle_sessions();

  // Puts together what the next step does, does it, and draws.
  StepResult step();
  void fill_batch();
  void go_on(Answer* answer, const cria_batch_entry& entry);
  // The same of an answer that is embeddings.
  void go_on_embedding(Answer* answer);
  void add_entry(Answer* answer, size_t n_prompt_tokens);
  // Whether what one would read first is being read by one before it.
  // Sessions hold n_held tokens of its prompt.
  [[nodiscard]] bool should_wait(const Answer& answer, uint32_t n_held) const;
  // Tokens of a prompt that no session holds. Nothing: it waits.
  [[nodiscard]] std::optional<size_t> n_to_read(const Answer& answer);
  // False: more of it than sessions hold is on its way from the disk.
  [[nodiscard]] bool begin_reading(Answer* answer);
  // Where n_kept tokens, if not 0, are to be kept on the disk.
  void keep_snapshots(Answer* answer, const PromptStart& start, uint32_t n_kept);
  void keep_prefix(Answer* answer);
  void tell_log(const Answer& answer, const PromptStart& start);
  NextStep on_step(uint64_t done, uint64_t total) override;
  void draw(Answer* answer);

  void note_status(const Answer& answer);
  void tell_reading(const Answer& answer);
  void tell_piece(Answer* answer);
  // The choice ends, its session is free and answer is no more.
  void finish(Answer* answer, Ending ending);
  // So many choices of a request from one on, none of which has a session.
  void end_without_session(Request* request, uint32_t first, uint32_t n_choices, Ending ending);
  void end_without_session(const std::shared_ptr<Request>& request, uint32_t first, Ending ending) {
    end_without_session(request.get(), first, request->asked.n_choices - first, ending);
  }
  void tell_end(Request* request, const AnswerSummary& summary);

  const ModelSession& model_;
  const EngineOptions options_;
  RequestQueue* const queue_;
  StatusBoard* const board_;
  const std::vector<uint32_t> end_tokens_;  // ascending
  const size_t chunk_;                      // tokens that a step handles at once
  const size_t step_;                       // states may be used up to multiples of this

  SessionPool pool_;
  std::optional<PrefixCache> prefixes_;           // none: nothing is kept on a disk
  std::vector<std::unique_ptr<Answer>> answers_;  // those with a session, the oldest first
  // The other choices of requests whose prompt is read: they come ahead of the queue.
  std::vector<WaitingChoice> later_;
  std::vector<cria_batch_entry> entries_;  // of the step at hand
  std::vector<Answer*> in_step_;           // whose they are
  std::vector<Reader> readers_;            // those whose prompts the step can go on with
  std::vector<Answer*> after_step_;        // as well, once it is done
};

}  // namespace cria::hosted
