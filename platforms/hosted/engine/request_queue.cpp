#include "platforms/hosted/engine/request_queue.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "platforms/hosted/base/clock.h"

namespace cria::hosted {

Request::Request(AnswerRequest wanted, std::shared_ptr<AnswerListener> hears)
    : asked(std::move(wanted)),
      listener(std::move(hears)),
      submitted_seconds(monotonic_seconds()),
      n_left(std::max(asked.n_choices, 1u)) {
  asked.n_choices = n_left;
  asked.sampling.biases = nullptr;  // not the caller's: those that the request owns
  asked.sampling.n_biases = 0;
}

SubmitResult RequestQueue::put(std::shared_ptr<Request> request, uint64_t* id) {
  const std::lock_guard lock(mutex_);
  const SubmitResult result = look_for_room(1);
  if (result != SubmitResult::kTaken) return result;
  const uint64_t new_id = newest_id_ + 1;
  const auto place = live_.emplace(new_id, request).first;
  try {
    waiting_.push_back(request);
  } catch (...) {
    live_.erase(place);
    throw;
  }
  ++n_taken_;
  newest_id_ = new_id;
  request->id = new_id;
  *id = new_id;
  changed_.notify_all();
  return SubmitResult::kTaken;
}

SubmitResult RequestQueue::has_room(size_t n_requests) {
  const std::lock_guard lock(mutex_);
  return look_for_room(n_requests);
}

SubmitResult RequestQueue::look_for_room(size_t n_requests) {
  const bool is_full = waiting_.size() + n_requests > max_waiting_ + n_idle_;
  if (!is_shut_down_ && !is_full) return SubmitResult::kTaken;
  ++n_refused_;
  return is_shut_down_ ? SubmitResult::kShuttingDown : SubmitResult::kQueueFull;
}

void RequestQueue::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  found->second->is_cancelled = true;
  has_news_ = true;
  changed_.notify_all();
}

void RequestQueue::shut_down(double patience_seconds) {
  const std::lock_guard lock(mutex_);
  const double deadline = monotonic_seconds() + std::max(patience_seconds, 0.0);
  deadline_seconds_ = is_shut_down_ ? std::min<double>(deadline_seconds_, deadline) : deadline;
  is_shut_down_ = true;
  has_news_ = true;
  changed_.notify_all();
}

void RequestQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !waiting_.empty() || is_shut_down_; });
}

void RequestQueue::wait_for_news() {
  constexpr std::chrono::milliseconds kMoment(100);  // in which the time for what runs may pass
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kMoment,
                    [this] { return has_news_ || (!waiting_.empty() && n_idle_ > 0); });
  has_news_ = false;
}

void RequestQueue::notify() {
  const std::lock_guard lock(mutex_);
  has_news_ = true;
  changed_.notify_all();
}

std::shared_ptr<Request> RequestQueue::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty() || is_shut_down_) return nullptr;
  std::shared_ptr<Request> request = std::move(waiting_.front());
  waiting_.pop_front();
  if (n_idle_ > 0) --n_idle_;
  return request;
}

std::shared_ptr<Request> RequestQueue::take_dropped() {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [this](const auto& request) {
    return is_shut_down_ || request->is_cancelled;
  });
  if (found == waiting_.end()) return nullptr;
  std::shared_ptr<Request> dropped = std::move(*found);
  waiting_.erase(found);
  return dropped;
}

void RequestQueue::forget(uint64_t id) {
  const std::lock_guard lock(mutex_);
  live_.erase(id);
}

void RequestQueue::set_idle(size_t n_sessions) {
  const std::lock_guard lock(mutex_);
  n_idle_ = n_sessions;
}

bool RequestQueue::is_over() const {
  return is_shut_down_ && monotonic_seconds() >= deadline_seconds_;
}

RequestQueue::Counts RequestQueue::counts() const {
  const std::lock_guard lock(mutex_);
  return {n_taken_, n_refused_, static_cast<uint32_t>(waiting_.size())};
}

}  // namespace cria::hosted
