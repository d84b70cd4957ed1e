// Requests on their way to the engine's thread: a bounded queue, and who has been cancelled.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "platforms/hosted/engine/engine.h"

namespace cria::hosted {

// A request until its last choice has ended.
struct Request {
  Request(AnswerRequest asked, std::shared_ptr<AnswerListener> listener);

  AnswerRequest asked;
  std::shared_ptr<AnswerListener> listener;
  uint64_t id = 0;
  double submitted_seconds;  // on the clock
  std::atomic<bool> is_cancelled = false;

  // The engine's thread's own.
  uint32_t n_left;  // choices that have not ended
  bool has_failed = false;
  bool was_cut = false;  // a choice of it has ended as cancelled
};

// Thread-safe. take, and what is told of sessions, are for the engine's thread; put alone
// allocates.
class RequestQueue {
 public:
  RequestQueue(uint32_t max_waiting, size_t n_sessions)
      : max_waiting_(max_waiting), n_idle_(n_sessions) {}

  SubmitResult put(std::shared_ptr<Request> request, uint64_t* id);
  // What put would say, of so many.
  SubmitResult has_room(size_t n_requests);
  void cancel(uint64_t id);
  // Requests are taken no more, and what runs ends when so much time has passed at the latest.
  void shut_down(double patience_seconds);

  // Waits until a request does, or until it is shut down.
  void wait();
  // Waits a moment for news: what was cancelled or shut down, notify, a request that an idle
  // session could take.
  void wait_for_news();
  // From any thread: there is something new.
  void notify();
  // The oldest that waits, for an idle session; null: none, or shut down.
  std::shared_ptr<Request> take();
  // One that waits no longer: cancelled or, once shut down, any; null: none.
  std::shared_ptr<Request> take_dropped();
  // A request whose last choice has ended.
  void forget(uint64_t id);
  // Sessions that nobody has a claim on, for which requests are taken beyond those that may wait.
  void set_idle(size_t n_sessions);

  // Whether something was cancelled or shut down since this was asked last.
  bool take_notice() { return has_news_.exchange(false); }
  [[nodiscard]] bool is_shut_down() const { return is_shut_down_.load(); }
  // Whether the time for what runs has passed.
  [[nodiscard]] bool is_over() const;
  struct Counts {
    uint64_t n_taken, n_refused;
    uint32_t n_waiting;
  };
  [[nodiscard]] Counts counts() const;

 private:
  // Under the mutex.
  SubmitResult look_for_room(size_t n_requests);

  const uint32_t max_waiting_;
  std::atomic<bool> has_news_ = false;
  std::atomic<bool> is_shut_down_ = false;
  std::atomic<double> deadline_seconds_ = 0.0;  // once shut down

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Request>> waiting_;
  std::unordered_map<uint64_t, std::shared_ptr<Request>> live_;
  uint64_t newest_id_ = 0;
  uint64_t n_taken_ = 0;
  uint64_t n_refused_ = 0;
  size_t n_idle_;
};

}  // namespace cria::hosted
