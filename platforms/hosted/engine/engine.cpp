#include "platforms/hosted/engine/engine.h"

#include <mutex>
#include <thread>
#include <utility>

#include "platforms/hosted/engine/engine_loop.h"
#include "platforms/hosted/engine/json_schemas.h"
#include "platforms/hosted/engine/request_queue.h"
#include "platforms/hosted/engine/status_board.h"

namespace cria::hosted {

class Engine::Impl {
 public:
  Impl(const ModelSession& model, const EngineOptions& options)
      : schemas_(model, options.max_schema_bytes),
        queue_(options.max_waiting, model.sessions().size()),
        keeps_snapshots_(model.info().keeps_blocks != 0),
        keeps_prefixes_(options.prefixes != nullptr || keeps_snapshots_),
        board_(model.sessions().size(), cria_context(model.session())),
        loop_(model, options, &queue_, &board_),
        thread_([this] { loop_.run(); }) {}
  ~Impl() { stop(0.0); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void stop(double patience_seconds) {
    queue_.shut_down(patience_seconds);
    const std::lock_guard lock(joining_);
    if (thread_.joinable()) thread_.join();
  }

  const JsonSchemas schemas_;
  RequestQueue queue_;
  const bool keeps_snapshots_;
  const bool keeps_prefixes_;
  StatusBoard board_;

 private:
  EngineLoop loop_;
  std::mutex joining_;
  std::thread thread_;  // the last, as it uses the others
};

Engine::Engine(const ModelSession& model, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(model, options)) {}

Engine::~Engine() = default;

uint64_t Engine::json_bytes() const { return impl_->schemas_.n_bytes(); }

SubmitResult Engine::submit(AnswerRequest request, std::shared_ptr<AnswerListener> listener,
                            uint64_t* id) {
  return impl_->queue_.put(std::make_shared<Request>(std::move(request), std::move(listener)), id);
}

void Engine::cancel(uint64_t id) { impl_->queue_.cancel(id); }

SubmitResult Engine::has_room(size_t n_requests) { return impl_->queue_.has_room(n_requests); }

bool Engine::keeps_prefixes() const { return impl_->keeps_prefixes_; }
bool Engine::keeps_snapshots() const { return impl_->keeps_snapshots_; }

const JsonSchemas& Engine::schemas() const { return impl_->schemas_; }

std::vector<SessionStatus> Engine::sessions() const { return impl_->board_.sessions(); }

EngineCounts Engine::counts() const {
  EngineCounts counts = impl_->board_.counts();
  const RequestQueue::Counts queued = impl_->queue_.counts();
  counts.n_requests = queued.n_taken;
  counts.n_refused = queued.n_refused;
  counts.n_waiting = queued.n_waiting;
  return counts;
}

void Engine::stop(double patience_seconds) { impl_->stop(patience_seconds); }

}  // namespace cria::hosted
