#include "platforms/hosted/engine/status_board.h"

namespace cria::hosted {

StatusBoard::StatusBoard(size_t n_sessions, uint32_t n_context)
    : sessions_(n_sessions, SessionStatus{false, n_context, 0, 0, 0, 0, 0}) {}

void StatusBoard::note_session(uint32_t session, SessionStatus status) {
  const std::lock_guard lock(mutex_);
  SessionStatus& noted = sessions_[session];
  if (!noted.is_processing) ++counts_.n_busy;
  status.is_processing = true;
  status.n_context = noted.n_context;
  noted = status;
}

void StatusBoard::note_idle(uint32_t session, uint32_t n_used) {
  const std::lock_guard lock(mutex_);
  sessions_[session].is_processing = false;
  sessions_[session].n_used = n_used;
  --counts_.n_busy;
}

void StatusBoard::note_prompt(uint32_t n_tokens, uint32_t n_cached) {
  const std::lock_guard lock(mutex_);
  counts_.n_prompt_tokens += n_tokens;
  counts_.n_cached_tokens += n_cached;
}

void StatusBoard::note_step() {
  const std::lock_guard lock(mutex_);
  ++counts_.n_steps;
}

void StatusBoard::note_drawn(uint64_t n_tokens) {
  const std::lock_guard lock(mutex_);
  counts_.n_drawn_tokens += n_tokens;
}

void StatusBoard::note_times(double prefill_seconds, double decode_seconds) {
  const std::lock_guard lock(mutex_);
  counts_.prefill_seconds += prefill_seconds;
  counts_.decode_seconds += decode_seconds;
}

void StatusBoard::note_failed() {
  const std::lock_guard lock(mutex_);
  ++counts_.n_failed;
}

void StatusBoard::note_cancelled() {
  const std::lock_guard lock(mutex_);
  ++counts_.n_cancelled;
}

std::vector<SessionStatus> StatusBoard::sessions() const {
  const std::lock_guard lock(mutex_);
  return sessions_;
}

EngineCounts StatusBoard::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace cria::hosted
