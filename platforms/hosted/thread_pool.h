// Threads behind the runtime's parallel_for hook.
#pragma once

#include <cstdint>

#include "runtime/cria.h"

struct pthreadpool;

namespace cria::hosted {

// n_threads workers, the calling thread among them; one thread needs no pool. Joined by the
// destructor. Throws ProgramError kMemory when the system gives no threads.
class ThreadPool {
 public:
  explicit ThreadPool(uint32_t n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // What cria_config takes; the hook is null for one thread. Allocates nothing when called.
  cria_parallel_for hook() const;
  void* context() const { return pool_; }

 private:
  pthreadpool* pool_ = nullptr;
};

}  // namespace cria::hosted
