// A thread that does one thing at a time beside that which owns it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace cria::hosted {

class SideThread {
 public:
  SideThread() : thread_([this] { run(); }) {}
  // Waits for the end of what it does.
  ~SideThread() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  [[nodiscard]] bool is_busy() const {
    const std::lock_guard lock(mutex_);
    return work_ != nullptr;
  }
  // Not while it is busy. work throws nothing.
  void start(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return work_ != nullptr || is_over_; });
      if (work_ == nullptr) return;
      lock.unlock();
      work_();
      lock.lock();
      std::function<void()> done;
      done.swap(work_);
      lock.unlock();
      done = nullptr;  // with all that it holds
      lock.lock();
    }
  }

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::function<void()> work_;  // null: it is idle
  bool is_over_ = false;
  std::thread thread_;  // the last, as it uses the others
};

}  // namespace cria::hosted
