// parallel_for on real threads, one a task, started anew each time: any order happens. Slow, and
// qemu-user keeps some memory of every thread that ever was: for a few calls.
#pragma once

#include <cstddef>

namespace cria::test {

void thread_per_task(void* context, void (*task)(void* argument, size_t index), void* argument,
                     size_t n_tasks);

}  // namespace cria::test
