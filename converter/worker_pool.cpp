#include "converter/worker_pool.h"

#include <system_error>
#include <utility>

namespace cria::converter {

WorkerPool::WorkerPool(size_t n_workers) {
  try {
    for (size_t worker = 1; worker < n_workers; ++worker) {
      threads_.emplace_back([this, worker] { run(worker); });
    }
  } catch (const std::system_error&) {
    // The system has no more threads to give: fewer do the same work.
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(size_t worker) {
  size_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || generation_ != seen; });
    if (stopping_) return;
    seen = generation_;
    lock.unlock();
    work(worker);
    lock.lock();
    if (--n_working_ == 0) changed_.notify_all();
  }
}

void WorkerPool::work(size_t worker) {
  while (true) {
    size_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      if (next_ >= n_) return;
      index = next_++;
    }
    try {
      (*body_)(index, worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      // Every lower index has been begun, so that which failure counts is no matter of chance.
      if (!failure_ || index < failed_index_) {
        failure_ = std::current_exception();
        failed_index_ = index;
      }
      next_ = n_;
    }
  }
}

void WorkerPool::parallel_for(size_t n, const std::function<void(size_t, size_t)>& body) {
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    n_ = n;
    next_ = 0;
    n_working_ = threads_.size();
    ++generation_;
  }
  changed_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return n_working_ == 0; });
  body_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace cria::converter
