#include "tests/fuzz/hooks.h"

#include "tests/support/in_turn.h"
#include "tests/support/thread_per_task.h"

namespace cria::fuzz {
namespace {

void backward(void* /*context*/, void (*task)(void* argument, size_t index), void* argument,
              size_t n_tasks) {
  for (size_t i = n_tasks; i-- > 0;) task(argument, i);
}

void threads_at_first(void* context, void (*task)(void* argument, size_t index), void* argument,
                      size_t n_tasks) {
  auto* const n_left = static_cast<uint32_t*>(context);
  if (*n_left == 0) return backward(nullptr, task, argument, n_tasks);
  --*n_left;
  test::thread_per_task(nullptr, task, argument, n_tasks);
}

}  // namespace

void set_hook(TaskOrder order, uint32_t n_threaded, cria_config* config) {
  static uint32_t n_left;
  n_left = n_threaded;
  config->parallel_for = order == TaskOrder::kForward    ? test::in_turn
                         : order == TaskOrder::kBackward ? backward
                                                         : threads_at_first;
  config->parallel_context = &n_left;
}

}  // namespace cria::fuzz
