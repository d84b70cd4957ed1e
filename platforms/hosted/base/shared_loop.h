// A loop that a pool's threads share, with a body that needs memory of its own or may fail.
#pragma once

#include <cstddef>
#include <functional>

#include "platforms/hosted/base/thread_pool.h"

namespace cria::hosted {

using SharedBody = std::function<void(size_t index, size_t worker)>;

// Calls body once for every index below n, in no order but started in ascending order;
// worker < pool->n_threads() and no two calls at the same time share it. Returns when all are done.
// When a call throws, indices not yet started are dropped and the exception of the lowest index is
// thrown on.
void shared_loop(ThreadPool* pool, size_t n, const SharedBody& body);

}  // namespace cria::hosted
