#include "platforms/hosted/thread_pool.h"

#include <pthreadpool.h>

#include "platforms/hosted/print_format.h"
#include "platforms/hosted/program_error.h"

namespace cria::hosted {
namespace {

void parallel_for(void* context, void (*task)(void* argument, size_t index), void* argument,
                  size_t n_tasks) {
  constexpr uint32_t kNoFlags = 0;
  pthreadpool_parallelize_1d(static_cast<pthreadpool_t>(context), task, argument, n_tasks,
                             kNoFlags);
}

}  // namespace

ThreadPool::ThreadPool(uint32_t n_threads) {
  if (n_threads <= 1) return;
  pool_ = pthreadpool_create(n_threads);
  if (pool_ == nullptr) {
    throw ProgramError(ExitCode::kMemory,
                       text_of("cannot start %u threads; lower --threads", n_threads));
  }
}

ThreadPool::~ThreadPool() {
  if (pool_ != nullptr) pthreadpool_destroy(pool_);
}

cria_parallel_for ThreadPool::hook() const { return pool_ == nullptr ? nullptr : &parallel_for; }

}  // namespace cria::hosted
