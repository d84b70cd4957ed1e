#include "tests/fuzz/hooks.h"

#include "tests/support/thread_per_task.h"

namespace cria::fuzz {
namespace {

void forward(void* /*context*/, void (*task)(void* argument, size_t index), void* argument,
             size_t n_tasks) {
  for (size_t i = 0; i < n_tasks; ++i) task(argument, i);
}

void backward(void* /*context*/, void (*task)(void* argument, size_t index), void* argument,
              size_t n_tasks) {
  for (size_t i = n_tasks; i-- > 0;) task(argument, i);
}

}  // namespace

cria_parallel_for hook_for(TaskOrder order) {
  switch (order) {
    case TaskOrder::kForward:
      return forward;
    case TaskOrder::kBackward:
      return backward;
    case TaskOrder::kThreads:
      break;
  }
  return test::thread_per_task;
}

}  // namespace cria::fuzz
