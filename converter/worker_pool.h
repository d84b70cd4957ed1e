// Threads that share the indices of a loop.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cria::converter {

class WorkerPool {
 public:
  // n_workers >= 1; the calling thread is one of them. There are fewer where the system refuses.
  explicit WorkerPool(size_t n_workers);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  [[nodiscard]] size_t size() const { return threads_.size() + 1; }

  // Calls body(index, worker) once for every index below n, in no order but started in ascending
  // order; worker < size() and no two calls at the same time share it. Returns when all are done.
  // When a call throws, indices not yet started are dropped and one exception is thrown on.
  void parallel_for(size_t n, const std::function<void(size_t index, size_t worker)>& body);

 private:
  void run(size_t worker);
  void work(size_t worker);

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  const std::function<void(size_t, size_t)>* body_ = nullptr;
  size_t n_ = 0;
  size_t next_ = 0;
  size_t n_working_ = 0;
  size_t generation_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
  size_t failed_index_ = 0;  // of failure_

  std::vector<std::thread> threads_;
};

}  // namespace cria::converter
