#include "tests/support/thread_per_task.h"

#include <thread>
#include <vector>

namespace cria::test {

void thread_per_task(void* /*context*/, void (*task)(void* argument, size_t index), void* argument,
                     size_t n_tasks) {
  std::vector<std::thread> threads;
  for (size_t i = 1; i < n_tasks; ++i) threads.emplace_back(task, argument, i);
  task(argument, 0);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cria::test
