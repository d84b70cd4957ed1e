#include "platforms/hosted/base/shared_loop.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

namespace cria::hosted {
namespace {

struct Loop {
  const SharedBody& body;
  const size_t n;
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  // Guarded by mutex.
  std::exception_ptr failure;
  size_t failed_index = 0;
};

// The pool's task: one worker's share of the indices, whichever thread runs it.
void work(void* argument, size_t worker) {
  Loop& loop = *static_cast<Loop*>(argument);
  for (;;) {
    const size_t index = loop.next.fetch_add(1);
    if (index >= loop.n) return;
    try {
      loop.body(index, worker);
    } catch (...) {
      const std::lock_guard lock(loop.mutex);
      // Every lower index has been begun, so that which failure counts is no matter of chance.
      if (!loop.failure || index < loop.failed_index) {
        loop.failure = std::current_exception();
        loop.failed_index = index;
      }
      loop.next = loop.n;
    }
  }
}

}  // namespace

void shared_loop(ThreadPool* pool, size_t n, const SharedBody& body) {
  Loop loop = {.body = body, .n = n, .next = 0, .mutex = {}, .failure = nullptr, .failed_index = 0};
  pool->run(&work, &loop, std::min(n, pool->n_threads()));
  if (loop.failure) std::rethrow_exception(loop.failure);
}

}  // namespace cria::hosted
