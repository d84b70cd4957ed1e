#include "platforms/hosted/serve/worker.h"

#include <utility>

namespace cria::hosted {

Worker::Worker() {
  try {
    threads_[0] = std::thread([this] { work(kAnyBytes); });
    threads_[1] = std::thread([this] { work(kSmallBytes); });
  } catch (...) {  // the first cannot be left running
    stop();
    throw;
  }
}

void Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  wakes_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  tasks_.clear();
}

void Worker::post(size_t n_bytes, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace(n_bytes, std::move(task));
  }
  wakes_.notify_all();
}

void Worker::work(size_t most_bytes) {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (tasks_.empty() || tasks_.begin()->first > most_bytes) {
      wakes_.wait(lock);
      continue;
    }
    const std::function<void()> task = std::move(tasks_.extract(tasks_.begin()).mapped());
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace cria::hosted
