// Threads that do one thing after another, the small ones first.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace cria::hosted {

class Worker {
 public:
  // Larger tasks leave one of the two threads to others.
  static constexpr size_t kSmallBytes = size_t{64} << 10;

  Worker();
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // From any thread. n_bytes is how much there is to do; task throws nothing. Of those that wait
  // the smallest is next, of equal ones the oldest.
  void post(size_t n_bytes, std::function<void()> task);
  // Waits for what has begun; what has not is dropped.
  void stop();
  // For a task that waits for something.
  [[nodiscard]] bool is_over() const { return is_over_; }

 private:
  static constexpr size_t kAnyBytes = SIZE_MAX;
  void work(size_t most_bytes);

  std::mutex mutex_;
  std::condition_variable wakes_;
  std::multimap<size_t, std::function<void()>> tasks_;
  std::atomic<bool> is_over_ = false;
  std::array<std::thread, 2> threads_;
};

}  // namespace cria::hosted
