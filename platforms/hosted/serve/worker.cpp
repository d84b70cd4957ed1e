#include "platforms/hosted/serve/worker.h"

#include <utility>

namespace cria::hosted {

void Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  wakes_.notify_one();
  if (thread_.joinable()) thread_.join();
  tasks_.clear();
}

void Worker::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wakes_.notify_one();
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (tasks_.empty()) {
      wakes_.wait(lock);
      continue;
    }
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace cria::hosted
