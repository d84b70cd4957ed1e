// A thread that does one thing after another.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace cria::hosted {

class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // From any thread. task throws nothing.
  void post(std::function<void()> task);
  // Waits for what has begun; what has not is dropped.
  void stop();
  // For a task that waits for something.
  [[nodiscard]] bool is_over() const { return is_over_; }

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wakes_;
  std::deque<std::function<void()>> tasks_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace cria::hosted
