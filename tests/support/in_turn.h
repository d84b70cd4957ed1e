// parallel_for without threads: the tasks one after the other, as a host's hook may run them.
#pragma once

#include <cstddef>

namespace cria::test {

inline void in_turn(void* /*context*/, void (*task)(void* argument, size_t index), void* argument,
                    size_t n_tasks) {
  for (size_t i = 0; i < n_tasks; ++i) task(argument, i);
}

}  // namespace cria::test
