// What the engine's thread is doing, for those who ask from other threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "platforms/hosted/engine/engine.h"

namespace cria::hosted {

// Thread-safe. What the queue counts is not here.
class StatusBoard {
 public:
  StatusBoard(size_t n_sessions, uint32_t n_context);

  // An answer begins or goes on in a session; is_processing and n_context are the board's.
  void note_session(uint32_t session, SessionStatus status);
  void note_idle(uint32_t session, uint32_t n_used);
  void note_prompt(uint32_t n_tokens, uint32_t n_cached);
  void note_step();
  void note_drawn(uint64_t n_tokens);
  // The end of a choice that had a session.
  void note_times(double prefill_seconds, double decode_seconds);
  void note_failed();
  void note_cancelled();

  [[nodiscard]] std::vector<SessionStatus> sessions() const;
  [[nodiscard]] EngineCounts counts() const;

 private:
  mutable std::mutex mutex_;
  std::vector<SessionStatus> sessions_;
  EngineCounts counts_ = {};
};

}  // namespace cria::hosted
